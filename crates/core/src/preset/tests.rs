//! Held here: public ids come out as their systems say, and no bit is lost or read twice.

use super::*;
use proptest::prelude::*;

fn decode(name: &str, value: u64) -> Decoded {
    Preset::named(name).unwrap().decode(Id::new(value).unwrap()).unwrap()
}

#[test]
fn public_facts_come_out() {
    let twitter = decode("twitter", 1_541_815_603_606_036_480);
    assert_eq!(twitter.unix_ms, 1_656_432_460_105); // 2022-06-28T16:07:40.105Z
    assert!(twitter.parts().eq([("machine", 378), ("sequence", 0)]));

    let discord = decode("discord", 175_928_847_299_117_063);
    assert_eq!(discord.unix_ms, 1_462_015_105_796); // 2016-04-30T11:18:25.796Z
    assert!(discord.parts().eq([("worker", 1), ("process", 0), ("increment", 7)]));

    // Two posts whose times were published to the second.
    for (id, unix_s) in [
        (2_384_288_897_814_875_714, 1_598_449_407), // 2020-08-26T13:43:27Z
        (2_383_568_809_444_681_765, 1_598_363_566), // 2020-08-25T13:52:46Z
    ] {
        assert_eq!(decode("instagram", id).unix_ms.div_euclid(1000), unix_s);
    }
}

#[test]
fn every_field_is_read_from_its_place() {
    let mastodon = decode("mastodon", (1_700_000_000_123 << 16) | 65_535);
    assert_eq!(mastodon.unix_ms, 1_700_000_000_123);
    assert!(mastodon.parts().eq([("sequence", 65_535)]));

    let sonyflake = decode("sonyflake", (3 << 24) | (255 << 16) | 1);
    assert_eq!(sonyflake.unix_ms, 1_409_529_600_030);
    assert!(sonyflake.parts().eq([("sequence", 255), ("machine", 1)]));

    let instagram = decode("instagram", (7 << 23) | (8191 << 10) | 5);
    assert_eq!(instagram.unix_ms, 1_314_220_021_728);
    assert!(instagram.parts().eq([("shard", 8191), ("sequence", 5)]));

    let snowlease = decode("snowlease", 20_987_903);
    assert_eq!((snowlease.tick, snowlease.unix_ms), (Tick(5), 1_704_067_200_005));
    assert!(snowlease.parts().eq([("generator_id", 3), ("sequence", 4095)]));
}

#[test]
fn ends_of_the_widths_do_not_overflow() {
    for preset in Preset::ALL {
        let first = preset.decode(Id::MIN).unwrap();
        assert_eq!(first.unix_ms, preset.epoch_ms());
        assert!(first.fields().all(|(_, value)| value == 0));

        let largest = Id::new((1u64 << preset.bits().min(63)) - 1).unwrap();
        let last = preset.decode(largest).unwrap();
        assert!(last.unix_ms > preset.epoch_ms());
        assert!(
            last.parts()
                .zip(last.fields().skip(1))
                .all(|((_, value), (field, _))| { value == (1 << field.bits) - 1 })
        );
    }
    let end = |name, value| decode(name, value).unix_ms;
    let max = i64::MAX.unsigned_abs();
    assert_eq!(end("snowlease", max), 3_903_090_455_551); // 2093-09-06T15:47:35.551Z
    assert_eq!(end("js53", (1 << 53) - 1), 3_903_090_455_551);
    assert_eq!(end("sonyflake", max), 1_409_529_600_000 + ((1 << 39) - 1) * 10);
    // 64 bits of which an id has 63: the upper half of their time is out of reach.
    assert_eq!(end("discord", max), 1_420_070_400_000 + (1 << 41) - 1);
    assert_eq!(end("mastodon", max), (1 << 47) - 1);
}

#[test]
fn an_id_that_javascript_would_round_is_none_of_js53() {
    let js53 = Preset::named("js53").unwrap();
    assert!(js53.decode(Id::new((1 << 53) - 1).unwrap()).is_ok());
    let error = js53.decode(Id::new(1 << 53).unwrap()).unwrap_err();
    assert_eq!(error, PresetError::TooLarge { preset: "js53", bits: 53 });
    assert_eq!(
        error.to_string(),
        "this is no id of the preset js53, whose ids are below 2^53: \
         name the preset it comes from"
    );
}

#[test]
fn formats_are_those_of_the_presets() {
    let format = |name| Preset::named(name).unwrap().format().map(|format| format.to_string());
    assert_eq!(format("snowlease").unwrap(), "t41g10s12/1ms/1704067200000");
    assert_eq!(format("fleet").unwrap(), "t41g13s9/1ms/1704067200000");
    assert_eq!(format("twitter").unwrap(), "t41g10s12/1ms/1288834974657");
    assert_eq!(format("js53").unwrap(), "t51g6s6/1ms/1704067200000");
    for name in ["discord", "instagram", "mastodon", "sonyflake"] {
        assert_eq!(format(name), None);
    }
}

#[test]
fn an_unknown_name_lists_the_known_ones_and_suggests_the_nearest() {
    for preset in Preset::ALL {
        assert_eq!(Preset::named(preset.name()), Ok(preset));
    }
    let nearest = |name| Preset::named(name).unwrap_err().nearest;
    assert_eq!(nearest("Twitter"), Some("twitter"));
    assert_eq!(nearest("mastadon"), Some("mastodon"));
    assert_eq!(nearest("snowflake"), Some("snowlease"));
    assert_eq!(nearest("disc"), Some("discord"));
    assert_eq!(nearest(""), None);
    assert_eq!(nearest("☃"), None);
    assert_eq!(nearest(&"twitter".repeat(1000)), None);
    assert_eq!(
        Preset::named("fleat").unwrap_err().to_string(),
        "there is no preset of this name: did you mean fleet? known are snowlease, fleet, js53, \
         twitter, discord, instagram, mastodon and sonyflake"
    );
}

proptest! {
    #[test]
    fn composing_the_fields_gives_the_id_back(value in 0..=i64::MAX.unsigned_abs()) {
        for preset in Preset::ALL {
            let value = if preset.bits() < 63 { value & ((1 << preset.bits()) - 1) } else { value };
            let decoded = preset.decode(Id::new(value).unwrap()).unwrap();
            let composed =
                decoded.fields().fold(0, |id, (field, value)| (id << field.bits) | value);
            prop_assert_eq!(composed, value);
        }
    }

    #[test]
    fn presets_with_a_format_read_as_the_format_does(value in 0..=i64::MAX.unsigned_abs()) {
        for preset in Preset::ALL {
            let id = Id::new(value >> (63 - preset.bits().min(63))).unwrap();
            let decoded = preset.decode(id).unwrap();
            if let Some(format) = preset.format() {
                let parts = format.decode(id);
                prop_assert_eq!(decoded.tick, parts.tick);
                prop_assert_eq!(decoded.unix_ms, format.unix_ms(parts.tick));
                prop_assert!(decoded.parts().map(|(_, value)| value)
                    .eq([parts.generator_id, parts.sequence]));
            }
        }
    }

    #[test]
    fn no_name_panics(name in "\\PC{0,30}") {
        let _ = Preset::named(&name);
    }
}
