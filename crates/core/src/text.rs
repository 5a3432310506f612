//! The text forms of an id: decimal, hexadecimal, Crockford's base 32 and base 62.
//!
//! | form      | length  | digits, in the order of their values       | largest text          |
//! |-----------|---------|--------------------------------------------|-----------------------|
//! | decimal   | 1 to 19 | `0`-`9`                                    | `9223372036854775807` |
//! | hex       | 16      | `0`-`9` `a`-`f`                            | `7fffffffffffffff`    |
//! | crockford | 13      | `0`-`9` `A`-`Z` without `I`, `L`, `O`, `U` | `7ZZZZZZZZZZZZ`       |
//! | base62    | 11      | `0`-`9` `A`-`Z` `a`-`z`                    | `AzL8n0Y58m7`         |
//!
//! In each form an id has exactly one text and a text is exactly one id or refused (G7): no sign,
//! space, separator, prefix, padding, other case, look-alike letter or digit outside ASCII is
//! taken.
//!
//! Which form to choose:
//!
//! * decimal is what an id prints as. Texts of different lengths do not sort as their ids do.
//! * The other three have a fixed length and sort byte by byte as their ids do.
//! * Crockford is the form for places that ignore case: file names, host names, columns with a
//!   `_ci` collation, speech. Folding its case merges no two ids.
//! * Base 62 is the shortest, and only for places that keep case: `0000000000A` (10) and
//!   `0000000000a` (36) are two ids.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use crate::Id;

/// Room for the longest text, 19 decimal digits, in whole pairs of digits.
const ROOM: usize = 20;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const HEX: &[u8; 16] = b"0123456789abcdef";
const DECIMAL: &[u8; 10] = b"0123456789";

static BASE62_VALUES: Values = values(BASE62);
static CROCKFORD_VALUES: Values = values(CROCKFORD);
static HEX_VALUES: Values = values(HEX);
static DECIMAL_VALUES: Values = values(DECIMAL);

/// The value of each byte as a digit, or [`NO_DIGIT`].
type Values = [u8; 256];

const NO_DIGIT: u8 = u8::MAX;

const fn values(digits: &[u8]) -> Values {
    assert!(digits.len() <= NO_DIGIT as usize);
    let mut values = [NO_DIGIT; 256];
    let mut value: u8 = 0;
    while (value as usize) < digits.len() {
        values[digits[value as usize] as usize] = value;
        value += 1;
    }
    values
}

/// The two decimal digits of each number below 100.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [DECIMAL[number / 10], DECIMAL[number % 10]];
        number += 1;
    }
    pairs
};

/// A way to write an id as text; see the [module](self) for the exact form of each.
///
/// # Example
///
/// ```
/// # use snowlease_core::{Id, TextError, TextForm};
/// let id = Id::MAX;
/// assert_eq!(TextForm::Base62.encode(id).as_str(), "AzL8n0Y58m7");
/// assert_eq!(TextForm::Crockford.decode("7ZZZZZZZZZZZZ"), Ok(id));
/// assert_eq!(
///     TextForm::Crockford.decode("7zzzzzzzzzzzz"),
///     Err(TextError::Character { form: TextForm::Crockford, position: 1 }),
/// );
/// assert_eq!("hex".parse(), Ok(TextForm::Hex));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextForm {
    /// `0`, or up to 19 digits without a leading zero.
    Decimal,
    /// Exactly 16 lower-case hexadecimal digits.
    Hex,
    /// Exactly 13 upper-case digits of Crockford's base 32; the one to use where case may be lost.
    Crockford,
    /// Exactly 11 digits, upper and lower case; only for places that keep case.
    Base62,
}

impl TextForm {
    /// Every form.
    pub const ALL: [TextForm; 4] =
        [TextForm::Decimal, TextForm::Hex, TextForm::Crockford, TextForm::Base62];

    /// The name of the form, which [`FromStr`] reads back.
    pub const fn name(self) -> &'static str {
        match self {
            TextForm::Decimal => "decimal",
            TextForm::Hex => "hex",
            TextForm::Crockford => "crockford",
            TextForm::Base62 => "base62",
        }
    }

    /// Writes an id.
    ///
    /// # Promise
    ///
    /// [`decode`](Self::decode) of the same form gives the id back.
    ///
    /// # Cost
    ///
    /// Tens of nanoseconds at most; does not allocate.
    pub fn encode(self, id: Id) -> IdText {
        let value = id.get();
        match self {
            TextForm::Decimal => decimal(value),
            TextForm::Hex => write_bits::<4, 16, 16>(value, HEX),
            TextForm::Crockford => write_bits::<5, 13, 32>(value, CROCKFORD),
            TextForm::Base62 => base62(value),
        }
    }

    /// Reads exactly what [`encode`](Self::encode) of this form writes, and nothing else.
    ///
    /// # Promise
    ///
    /// If this returns an id, encoding the id gives `text` back, byte for byte.
    ///
    /// # Errors
    ///
    /// [`TextError::Empty`], [`TextError::Length`], [`TextError::Character`],
    /// [`TextError::LeadingZero`] or [`TextError::TooLarge`]: the text is no id in this form. It is
    /// mistyped, cut off or in another form; retrying does not help.
    #[inline]
    pub fn decode(self, text: &str) -> Result<Id, TextError> {
        match self {
            TextForm::Decimal => read_decimal(text),
            TextForm::Hex => read_bits::<4, 16>(self, &HEX_VALUES, text),
            TextForm::Crockford => read_bits::<5, 13>(self, &CROCKFORD_VALUES, text),
            TextForm::Base62 => read_base62(text),
        }
    }

    /// Reads an id in any form, and says in which.
    ///
    /// A canonical decimal text is always decimal. Otherwise the length decides: 16 bytes are hex,
    /// 13 Crockford, 11 base 62.
    ///
    /// Some texts of the fixed-length forms are canonical decimal too, and so are read as another
    /// id: those of decimal digits only that do not begin with `0`. That is about one text in a
    /// thousand in hex and one in a million in Crockford among ids from 2^60 on, none below; in
    /// base 62 one in ninety million among ids from 62^10 on, none below. (In the default
    /// format 2^60 is reached in 2032.) Where the form is known, name it: use
    /// [`decode`](Self::decode).
    ///
    /// # Errors
    ///
    /// * [`TextError::Unrecognised`], [`TextError::Empty`]: the text is in none of the forms.
    /// * Any other that [`decode`](Self::decode) gives: the length is that of a form, or the text
    ///   is all digits, but it is no id.
    ///
    /// # Example
    ///
    /// ```
    /// # use snowlease_core::{Id, TextForm};
    /// let id = Id::new(20_987_903)?;
    /// assert_eq!(TextForm::detect("20987903"), Ok((TextForm::Decimal, id)));
    /// assert_eq!(TextForm::detect("0000000001403fff"), Ok((TextForm::Hex, id)));
    /// # Ok::<(), snowlease_core::IdError>(())
    /// ```
    pub fn detect(text: &str) -> Result<(TextForm, Id), TextError> {
        let decimal = TextForm::Decimal.decode(text);
        if let Ok(id) = decimal {
            return Ok((TextForm::Decimal, id));
        }
        for form in [TextForm::Hex, TextForm::Crockford, TextForm::Base62] {
            if form.length().is_some_and(|length| usize::from(length) == text.len()) {
                return form.decode(text).map(|id| (form, id));
            }
        }
        match decimal {
            Err(TextError::Character { .. }) => Err(TextError::Unrecognised { length: text.len() }),
            decimal => decimal.map(|id| (TextForm::Decimal, id)),
        }
    }

    /// The length of every text of a form of fixed length, in bytes.
    const fn length(self) -> Option<u8> {
        match self {
            TextForm::Decimal => None,
            TextForm::Hex => Some(16),
            TextForm::Crockford => Some(13),
            TextForm::Base62 => Some(11),
        }
    }

    /// How the form is written, to end "it is written with ...".
    const fn rule(self) -> &'static str {
        match self {
            TextForm::Decimal => "0-9 only, no sign, space or separator",
            TextForm::Hex => "0-9 and lower-case a-f only, no prefix",
            TextForm::Crockford => "0-9 and upper-case A-Z without I, L, O and U, no hyphens",
            TextForm::Base62 => "0-9, A-Z and a-z only",
        }
    }
}

/// An id of decimal digits.
fn read_decimal(text: &str) -> Result<Id, TextError> {
    let form = TextForm::Decimal;
    if text.is_empty() {
        return Err(TextError::Empty);
    }
    let number = if text.len() <= 19 { read_few(text) } else { None };
    // Something is wrong with it, or much: what, is found out digit by digit.
    let number = number.map_or_else(|| read::<10>(form, &DECIMAL_VALUES, text), Ok)?;
    if text.len() > 1 && text.starts_with('0') {
        return Err(TextError::LeadingZero);
    }
    Id::new(number).map_err(|_| TextError::TooLarge { form })
}

/// The number that up to 19 decimal digits say, which cannot be too large.
fn read_few(text: &str) -> Option<u64> {
    let (mut number, mut wrong) = (0u64, false);
    for byte in text.bytes() {
        let digit = byte.wrapping_sub(b'0');
        wrong |= digit > 9;
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    (!wrong).then_some(number)
}

fn read_base62(text: &str) -> Result<Id, TextError> {
    let form = TextForm::Base62;
    if text.len() != 11 {
        return Err(wrong_length(form, text));
    }
    Id::new(read::<62>(form, &BASE62_VALUES, text)?).map_err(|_| TextError::TooLarge { form })
}

#[cold]
fn wrong_length(form: TextForm, text: &str) -> TextError {
    match text.len() {
        0 => TextError::Empty,
        length => TextError::Length { form, length },
    }
}

/// The number that the digits of `text` say, from high to low.
fn read<const BASE: u64>(form: TextForm, values: &Values, text: &str) -> Result<u64, TextError> {
    let mut number: u64 = 0;
    for (position, byte) in text.bytes().enumerate() {
        let value = values[usize::from(byte)];
        if value == NO_DIGIT {
            return Err(TextError::Character { form, position });
        }
        number = number
            .checked_mul(BASE)
            .and_then(|number| number.checked_add(u64::from(value)))
            .ok_or(TextError::TooLarge { form })?;
    }
    Ok(number)
}

/// The id that `LENGTH` digits of `BITS` bits each say, from high to low. All are looked up before
/// any is judged, so that no digit waits for another.
fn read_bits<const BITS: u32, const LENGTH: usize>(
    form: TextForm,
    values: &Values,
    text: &str,
) -> Result<Id, TextError> {
    let Ok(bytes) = <&[u8; LENGTH]>::try_from(text.as_bytes()) else {
        return Err(wrong_length(form, text));
    };
    let (mut number, mut seen) = (0u64, 0u8);
    for byte in bytes {
        let value = values[usize::from(*byte)];
        seen |= value;
        number = number << BITS | u64::from(value);
    }
    // Every digit is below 64, so only `NO_DIGIT` sets the highest bit.
    if seen >= 0x80 {
        let position = bytes.iter().position(|byte| values[usize::from(*byte)] == NO_DIGIT);
        return Err(TextError::Character { form, position: position.unwrap_or(0) });
    }
    // What the first digit has above the 63 bits of an id may have been shifted out.
    let above = const { 63 - BITS as usize * (LENGTH - 1) };
    if values[usize::from(bytes[0])] >> above != 0 {
        return Err(TextError::TooLarge { form });
    }
    Ok(Id::new_unchecked(number))
}

/// The text of `value` in `LENGTH` digits of `BITS` bits each.
#[expect(clippy::cast_possible_truncation, reason = "a length of at most 20, by the assertion")]
fn write_bits<const BITS: u32, const LENGTH: usize, const BASE: usize>(
    value: u64,
    digits: &[u8; BASE],
) -> IdText {
    const { assert!(BASE == 1 << BITS && LENGTH <= ROOM) };
    let mut bytes = [b'0'; ROOM];
    for (place, byte) in (0..).zip(bytes[ROOM - LENGTH..].iter_mut().rev()) {
        *byte = digits[(value >> (BITS * place)) as usize % BASE];
    }
    IdText { bytes, length: LENGTH as u8 }
}

/// The text of `value` in base 62.
///
/// A chunk of five digits fits 32 bits: the 64-bit number is divided once a chunk and not once a
/// digit, and the digits of one chunk do not wait for those of another.
fn base62(mut value: u64) -> IdText {
    const CHUNK: usize = 5;
    const VALUES: u64 = 62u64.pow(5);
    let mut bytes = [b'0'; ROOM];
    for chunk in bytes.rchunks_mut(CHUNK) {
        let mut low = (value % VALUES) as u32;
        value /= VALUES;
        for byte in chunk.iter_mut().rev() {
            *byte = BASE62[(low % 62) as usize];
            low /= 62;
        }
        if value == 0 {
            break;
        }
    }
    IdText { bytes, length: 11 }
}

/// The decimal text of `value`, two digits at a time.
fn decimal(mut value: u64) -> IdText {
    let mut bytes = [b'0'; ROOM];
    let mut length: u8 = 0;
    let (pairs, _) = bytes.as_chunks_mut::<2>();
    for pair in pairs.iter_mut().rev() {
        let low = (value % 100) as usize;
        *pair = PAIRS[low];
        length += if value < 10 { 1 } else { 2 };
        value /= 100;
        if value == 0 {
            break;
        }
    }
    IdText { bytes, length }
}

impl fmt::Display for TextForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads exactly a [`name`](TextForm::name).
impl FromStr for TextForm {
    type Err = TextError;

    fn from_str(text: &str) -> Result<TextForm, TextError> {
        TextForm::ALL.into_iter().find(|form| form.name() == text).ok_or(TextError::UnknownForm)
    }
}

/// Reads exactly the decimal text that `Display` writes; see [`TextForm::decode`] for the other
/// forms.
impl FromStr for Id {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Id, TextError> {
        TextForm::Decimal.decode(text)
    }
}

/// The text of an id, in place; made by [`TextForm::encode`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdText {
    /// ASCII; the text is the last `length` bytes.
    bytes: [u8; ROOM],
    length: u8,
}

impl IdText {
    /// The text.
    pub fn as_str(&self) -> &str {
        let (_, text) = self.bytes.split_at(ROOM.saturating_sub(usize::from(self.length)));
        // SAFETY: every byte is one of an array made of `b'0'`, or was copied from a table of
        // digits; both are ASCII, and nothing else makes an `IdText`. A check would take as long as
        // writing the text.
        unsafe { str::from_utf8_unchecked(text) }
    }
}

impl Deref for IdText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for IdText {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for IdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for IdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Why a text is no id, or no name of a form. Never repeats the text, which may be hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    /// There is no text. Give an id.
    Empty,
    /// The text has another length than every text of the form. Copy all of the id and nothing
    /// else, or name the form it is in.
    Length {
        /// The form asked for.
        form: TextForm,
        /// Length of the text in bytes.
        length: usize,
    },
    /// A byte of the text is no digit of the form. Correct it, or name the form the text is in.
    Character {
        /// The form asked for.
        form: TextForm,
        /// Where in the text the first such byte is; 0 is its beginning.
        position: usize,
    },
    /// A decimal text of more than one digit begins with `0`. Remove the zeros: an id has one text.
    LeadingZero,
    /// The number is above the largest id, so it never was an id. Check where the text comes from.
    TooLarge {
        /// The form asked for.
        form: TextForm,
    },
    /// The text is in none of the forms. Correct it.
    Unrecognised {
        /// Length of the text in bytes.
        length: usize,
    },
    /// No form has this name. Use one that the message lists.
    UnknownForm,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Empty => f.write_str("the text is empty: give an id"),
            TextError::Length { form, length } => write!(
                f,
                "a text of {length} bytes is no id in the {form} form: its texts are {} bytes long",
                form.length().unwrap_or_default()
            ),
            TextError::Character { form, position } => write!(
                f,
                "the byte at position {position} is no digit of the {form} form: \
                 it is written with {}",
                form.rule()
            ),
            TextError::LeadingZero => {
                f.write_str("a decimal id has no leading zero: an id has one text")
            }
            TextError::TooLarge { form } => write!(
                f,
                "the number is above the largest id, {} in the {form} form: it is no id",
                form.encode(Id::MAX)
            ),
            TextError::Unrecognised { length } => write!(
                f,
                "a text of {length} bytes with these characters is in no form of an id: write \
                 decimal, 16 digits of hex, 13 of crockford or 11 of base62"
            ),
            TextError::UnknownForm => f.write_str(
                "there is no text form of this name: use decimal, hex, crockford or base62",
            ),
        }
    }
}

impl std::error::Error for TextError {}

#[cfg(test)]
mod tests;
