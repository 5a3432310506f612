//! Tokens: who shows one may renew or release; a store keeps only its hash.
//!
//! A token is derived from a request key that the holder made, so that an acquire whose answer was
//! lost can be asked again and gives the same lease. The next token of a renewal is made by the
//! holder too: one made by the store would be lost with the answer, and a live lease with it.

use std::fmt;

use sha2::{Digest, Sha256};

const BYTES: usize = 32;

/// A secret of 256 bits that proves a grant. `Debug` hides it; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; BYTES]);

/// What a store keeps of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; BYTES]);

/// A secret the holder makes for one acquire; asking again with it gives the same lease.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestKey(String);

impl Token {
    /// A new random token.
    ///
    /// # Panics
    ///
    /// If the system's source of randomness fails; no secret can be made then.
    pub fn random() -> Token {
        Token(random())
    }

    /// Reads what [`Token::reveal`] wrote: 64 lower-case hex digits. `None` for anything else.
    pub fn from_text(text: &str) -> Option<Token> {
        from_hex(text).map(Token)
    }

    /// The text to show to the store, 64 hex digits. A secret: never log it.
    pub fn reveal(&self) -> String {
        to_hex(&self.0)
    }

    /// What the store keeps.
    pub fn hash(&self) -> TokenHash {
        TokenHash(digest(b"snowlease token hash", &self.0))
    }
}

impl TokenHash {
    /// The hash in a cell that no one holds; no token has it, short of a broken SHA-256.
    pub const NOBODY: TokenHash = TokenHash([0; BYTES]);

    /// The bytes, as stored in a cell.
    pub const fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// A hash read from a cell.
    pub const fn from_bytes(bytes: [u8; BYTES]) -> TokenHash {
        TokenHash(bytes)
    }

    /// Reads 64 lower-case hex digits. `None` for anything else.
    pub fn from_text(text: &str) -> Option<TokenHash> {
        from_hex(text).map(TokenHash)
    }

    /// The text on the wire, 64 hex digits.
    pub fn to_text(&self) -> String {
        to_hex(&self.0)
    }
}

impl RequestKey {
    /// The shortest key a holder may choose, in bytes: 128 bits, if they are random.
    pub const MIN_BYTES: usize = 16;

    /// The longest key, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// A new random key.
    ///
    /// # Panics
    ///
    /// If the system's source of randomness fails; no secret can be made then.
    pub fn random() -> RequestKey {
        RequestKey(to_hex(&random::<BYTES>()))
    }

    /// A key from the text a holder sent; `None` if it is shorter than 16 or longer than 128 bytes.
    pub fn from_text(text: &str) -> Option<RequestKey> {
        let fits = (RequestKey::MIN_BYTES..=RequestKey::MAX_BYTES).contains(&text.len());
        fits.then(|| RequestKey(text.to_owned()))
    }

    /// The text to send. A secret: never log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The token of the lease that this key acquires.
    pub fn token(&self) -> Token {
        Token(digest(b"snowlease request key", self.0.as_bytes()))
    }
}

fn digest(purpose: &[u8], secret: &[u8]) -> [u8; BYTES] {
    let mut hash = Sha256::new();
    hash.update([u8::try_from(purpose.len()).unwrap_or(u8::MAX)]);
    hash.update(purpose);
    hash.update(secret);
    hash.finalize().into()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[expect(clippy::expect_used, reason = "documented: no secret can be made without randomness")]
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn from_hex(text: &str) -> Option<[u8; BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != BYTES * 2 {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestKey(hidden)")
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_key_always_gives_the_same_token_and_another_gives_another() {
        let key = RequestKey::from_text("0123456789abcdef").unwrap();
        assert_eq!(key.token(), key.token());
        assert_ne!(key.token(), RequestKey::random().token());
        assert_ne!(key.token().hash().as_bytes(), &key.token().0);
        assert!(RequestKey::from_text("too short").is_none());
        assert!(RequestKey::from_text(&"x".repeat(129)).is_none());
    }

    #[test]
    fn a_key_survives_its_text() {
        let key = RequestKey::random();
        let received = RequestKey::from_text(key.reveal()).unwrap();
        assert_eq!(received.token(), key.token());
    }

    #[test]
    fn texts_round_trip_and_secrets_do_not_show() {
        let token = Token::random();
        assert_eq!(Token::from_text(&token.reveal()), Some(token.clone()));
        assert!(Token::from_text(&"A".repeat(64)).is_none());
        assert!(Token::from_text("").is_none());
        assert!(!format!("{token:?}{:?}", RequestKey::random()).contains(&token.reveal()[..8]));
    }
}
