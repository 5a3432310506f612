//! Held here: one id, one text, in every form, for every input that ever broke such a decoder.

use super::*;
use proptest::prelude::*;

const FIXED: [TextForm; 3] = [TextForm::Hex, TextForm::Crockford, TextForm::Base62];

fn id(value: u64) -> Id {
    Id::new(value).unwrap()
}

fn any_id() -> impl Strategy<Value = Id> {
    // A uniform number alone would hardly ever be short.
    (0..=i64::MAX.unsigned_abs(), 0u32..63).prop_map(|(value, shift)| id(value >> shift))
}

/// The property itself: text that is taken is the text of what it is taken for.
fn canonical_or_refused(text: &str) {
    for form in TextForm::ALL {
        if let Ok(id) = form.decode(text) {
            assert_eq!(form.encode(id).as_str(), text);
        }
    }
    if let Ok((form, id)) = TextForm::detect(text) {
        assert_eq!(form.encode(id).as_str(), text);
    }
    let _ = text.parse::<TextForm>();
}

fn round_trips(id: Id) {
    for form in TextForm::ALL {
        let text = form.encode(id);
        assert_eq!(form.decode(&text), Ok(id), "{form} {text}");
        // Detection may take it for decimal only by the documented rule.
        match TextForm::detect(&text) {
            Ok((detected, same)) if detected == form => assert_eq!(same, id),
            other => {
                assert!(text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0'));
                assert!(matches!(other, Ok((TextForm::Decimal, _))), "{form} {text}");
                assert!(id.get() >= if form == TextForm::Base62 { 62u64.pow(10) } else { 1 << 60 });
            }
        }
    }
    assert_eq!(TextForm::Decimal.encode(id).as_str(), id.to_string());
    assert_eq!(TextForm::Hex.encode(id).as_str(), format!("{:016x}", id.get()));
}

#[test]
fn known_texts() {
    let texts = |value| TextForm::ALL.map(|form| form.encode(id(value)).to_string());
    assert_eq!(texts(0), ["0", "0000000000000000", "0000000000000", "00000000000"]);
    assert_eq!(texts(61), ["61", "000000000000003d", "000000000001X", "0000000000z"]);
    assert_eq!(texts(20_987_903), ["20987903", "0000000001403fff", "00000000M0FZZ", "0000001Q3uZ"]);
    assert_eq!(
        texts(i64::MAX.unsigned_abs()),
        ["9223372036854775807", "7fffffffffffffff", "7ZZZZZZZZZZZZ", "AzL8n0Y58m7"]
    );
}

#[test]
fn every_sequence_and_every_single_bit_round_trips_and_no_two_texts_are_equal() {
    let sequences = (0..4096).map(|sequence| id((5 << 22) | (3 << 12) | sequence));
    let bits = (0..63).map(|bit| id(1 << bit));
    let ids: Vec<Id> = sequences.chain(bits).collect();
    for form in TextForm::ALL {
        let mut texts: Vec<String> = ids.iter().map(|id| form.encode(*id).to_string()).collect();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), ids.len(), "{form}");
    }
    ids.into_iter().for_each(round_trips);
}

#[test]
fn ids_at_every_change_of_length_round_trip() {
    for base in [10u64, 16, 32, 62] {
        let mut power = 1u64;
        while let Some(next) = power.checked_mul(base).filter(|next| *next <= Id::MAX.get()) {
            for value in [next - 1, next, next + 1] {
                round_trips(id(value));
            }
            power = next;
        }
    }
    round_trips(Id::MIN);
    round_trips(Id::MAX);
    round_trips(id(Id::MAX.get() - 1));
}

#[test]
fn ids_of_1_to_19_digits_are_valid_by_value_and_not_by_length() {
    for digits in 1..=19 {
        let text = "1".repeat(digits);
        assert_eq!(text.parse::<Id>().map(Id::get).ok(), text.parse::<u64>().ok());
    }
    assert_eq!("0".parse::<Id>(), Ok(Id::MIN));
    assert_eq!("9223372036854775807".parse::<Id>(), Ok(Id::MAX));
}

#[test]
fn decimal_that_is_not_canonical_is_refused() {
    for text in [
        "",
        "+42",
        "%2B42",
        " 42",
        "42 ",
        "42\n",
        "\t42",
        "4_2",
        "4,2",
        "042",
        "00",
        "-0",
        "-1",
        "0x2A",
        "4.2e1",
        "4.0",
        "42\0",
        "１２３",
        "١٤",
        "²",
        "1²",
        "1٤",
        "4\u{200b}2",
        "\u{feff}42",
        "9223372036854775808",
        "9999999999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "18446744073709551658",
        "92233720368547758070",
        "09223372036854775807",
        "340282366920938463463374607431768211498",
        "NaN",
    ] {
        assert!(text.parse::<Id>().is_err(), "{text:?}");
        assert!(TextForm::detect(text).is_err(), "{text:?}");
    }
}

#[test]
fn overlong_and_overlarge_texts_are_refused() {
    let too_large = |form| Err(TextError::TooLarge { form });
    for text in ["8000000000000", "FZZZZZZZZZZZZ", "ZZZZZZZZZZZZZ", "G000000000000"] {
        assert_eq!(TextForm::Crockford.decode(text), too_large(TextForm::Crockford), "{text}");
    }
    for text in ["AzL8n0Y58m8", "LygHa16AHYF", "LygHa16AHYG", "zzzzzzzzzzz", "B0000000000"] {
        assert_eq!(TextForm::Base62.decode(text), too_large(TextForm::Base62), "{text}");
    }
    for text in ["8000000000000000", "ffffffffffffffff"] {
        assert_eq!(TextForm::Hex.decode(text), too_large(TextForm::Hex), "{text}");
    }
}

#[test]
fn padding_truncation_and_additions_are_refused() {
    for form in TextForm::ALL {
        for value in [1, 42, 20_987_903, i64::MAX.unsigned_abs()] {
            let text = form.encode(id(value));
            for other in [
                format!("0{text}"),
                format!(" {text}"),
                format!("{text} "),
                format!("{text}\n"),
                format!("{text}="),
                format!("0x{text}"),
                format!("{text}\0"),
            ] {
                assert!(form.decode(&other).is_err(), "{form} {other:?}");
            }
            if form != TextForm::Decimal {
                let longer = format!("{text}0");
                assert_eq!(
                    form.decode(&longer),
                    Err(TextError::Length { form, length: longer.len() })
                );
                let shorter = &text[1..];
                assert_eq!(
                    form.decode(shorter),
                    Err(TextError::Length { form, length: shorter.len() })
                );
            }
        }
        assert_eq!(form.decode(""), Err(TextError::Empty));
    }
}

#[test]
fn look_alikes_and_the_other_case_are_refused() {
    for character in "iloILOuUabcdefghjkmnpqrstvwxyz-*~$= ".chars() {
        let text = format!("00000000000{character}0");
        assert_eq!(
            TextForm::Crockford.decode(&text),
            Err(TextError::Character { form: TextForm::Crockford, position: 11 }),
            "{text}"
        );
    }
    let upper = TextForm::Hex.encode(Id::MAX).to_uppercase();
    assert_eq!(
        TextForm::Hex.decode(&upper),
        Err(TextError::Character { form: TextForm::Hex, position: 1 })
    );
    // In base 62 the other case is another number: here one too large, and one that is an id.
    assert!(TextForm::Base62.decode("aZl8N0y58M7").is_err());
    assert_eq!(TextForm::Base62.decode("0000000000A"), Ok(id(10)));
    assert_eq!(TextForm::Base62.decode("0000000000a"), Ok(id(36)));
}

#[test]
fn every_character_at_every_position_is_a_digit_or_refused() {
    for form in TextForm::ALL {
        let zeros = TextForm::encode(form, id(1_111_111_111_111_111_111)).len();
        let digits: &[u8] = match form {
            TextForm::Decimal => DECIMAL,
            TextForm::Hex => HEX,
            TextForm::Crockford => CROCKFORD,
            TextForm::Base62 => BASE62,
        };
        for position in 0..zeros {
            // Bytes 0 to 255 as characters, and characters whose low byte is a digit.
            for character in (0..=0x24f).filter_map(char::from_u32) {
                let mut text: Vec<char> = vec!['1'; zeros];
                text[position] = character;
                let text: String = text.into_iter().collect();
                canonical_or_refused(&text);
                let is_digit = u8::try_from(character).is_ok_and(|byte| digits.contains(&byte));
                match form.decode(&text) {
                    Ok(_) => assert!(is_digit),
                    Err(TextError::TooLarge { .. } | TextError::LeadingZero) => {
                        assert!(is_digit && position == 0);
                    }
                    Err(_) => assert!(!is_digit, "{form} {text:?}"),
                }
            }
        }
    }
}

#[test]
fn the_values_of_the_digits_are_their_places_and_no_other_byte_has_one() {
    let tables: [(&[u8], &Values); 4] = [
        (BASE62, &BASE62_VALUES),
        (CROCKFORD, &CROCKFORD_VALUES),
        (HEX, &HEX_VALUES),
        (DECIMAL, &DECIMAL_VALUES),
    ];
    for (digits, values) in tables {
        for byte in 0..=u8::MAX {
            let place = digits.iter().position(|digit| *digit == byte);
            let value = values[usize::from(byte)];
            assert_eq!((value != NO_DIGIT).then_some(usize::from(value)), place);
        }
    }
}

#[test]
fn detection_prefers_decimal_then_goes_by_length() {
    let detect = |text| TextForm::detect(text).map(|(form, id)| (form, id.get()));
    assert_eq!(detect("1234567890123456"), Ok((TextForm::Decimal, 1_234_567_890_123_456)));
    assert_eq!(detect("1234567890123"), Ok((TextForm::Decimal, 1_234_567_890_123)));
    assert_eq!(detect("12345678901"), Ok((TextForm::Decimal, 12_345_678_901)));
    assert_eq!(detect("0000000000000010"), Ok((TextForm::Hex, 16)));
    assert_eq!(detect("0000000000010"), Ok((TextForm::Crockford, 32)));
    assert_eq!(detect("00000000010"), Ok((TextForm::Base62, 62)));
    assert_eq!(detect("AzL8n0Y58m7"), Ok((TextForm::Base62, i64::MAX.unsigned_abs())));
    assert_eq!(detect(""), Err(TextError::Empty));
    assert_eq!(detect("012"), Err(TextError::LeadingZero));
    assert_eq!(detect("+42"), Err(TextError::Unrecognised { length: 3 }));
    assert_eq!(detect("9223372036854775808"), Err(TextError::TooLarge { form: TextForm::Decimal }));
    assert_eq!(
        detect("7ZZZZZZZZZZZu"),
        Err(TextError::Character { form: TextForm::Crockford, position: 12 })
    );
}

#[test]
fn names_round_trip_and_only_they_are_read() {
    for form in TextForm::ALL {
        assert_eq!(form.to_string().parse(), Ok(form));
    }
    for name in ["", "Hex", "hex ", "base32", "uuid", "base-62"] {
        assert_eq!(name.parse::<TextForm>(), Err(TextError::UnknownForm), "{name:?}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let say = |form: TextForm, text: &str| form.decode(text).unwrap_err().to_string();
    assert_eq!(
        say(TextForm::Crockford, "0000O00000000"),
        "the byte at position 4 is no digit of the crockford form: it is written with 0-9 and \
         upper-case A-Z without I, L, O and U, no hyphens"
    );
    assert_eq!(
        say(TextForm::Base62, "42"),
        "a text of 2 bytes is no id in the base62 form: its texts are 11 bytes long"
    );
    assert_eq!(
        say(TextForm::Base62, "AzL8n0Y58m8"),
        "the number is above the largest id, AzL8n0Y58m7 in the base62 form: it is no id"
    );
}

proptest! {
    #[test]
    fn ids_round_trip(id in any_id()) {
        round_trips(id);
    }

    #[test]
    fn any_text_is_canonical_or_refused(text in "\\PC{0,24}") {
        canonical_or_refused(&text);
    }

    #[test]
    fn text_of_digits_and_neighbours_is_canonical_or_refused(
        text in "[0-9]{0,21}|[0-9a-fA-F]{15,17}|[0-9A-Z]{12,14}|[0-9A-Za-z/:@\\[`{]{10,12}",
    ) {
        canonical_or_refused(&text);
    }

    #[test]
    fn a_changed_character_is_another_id_or_refused(
        id in any_id(), position: usize, character: char,
    ) {
        for form in TextForm::ALL {
            let text = form.encode(id);
            let mut changed: Vec<char> = text.chars().collect();
            let position = position % changed.len();
            changed[position] = character;
            let changed: String = changed.into_iter().collect();
            canonical_or_refused(&changed);
            prop_assert_eq!(form.decode(&changed) == Ok(id), changed == text.as_str());
        }
    }

    #[test]
    fn texts_of_fixed_length_sort_as_their_ids(a in any_id(), b in any_id()) {
        for form in FIXED {
            prop_assert_eq!(form.encode(a).as_bytes().cmp(form.encode(b).as_bytes()), a.cmp(&b));
        }
    }

    #[test]
    fn folding_case_merges_no_two_crockford_texts(a in any_id(), b in any_id()) {
        let folded = |id| TextForm::Crockford.encode(id).to_ascii_lowercase();
        prop_assert_eq!(folded(a) == folded(b), a == b);
        prop_assert_eq!(TextForm::Crockford.decode(&folded(a).to_ascii_uppercase()), Ok(a));
    }
}

#[test]
fn folding_case_merges_base62_texts_so_the_docs_send_such_places_to_crockford() {
    let (a, b) = (TextForm::Base62.encode(id(10)), TextForm::Base62.encode(id(36)));
    assert_ne!(a, b);
    assert_eq!(a.to_lowercase(), b.to_lowercase());
}
