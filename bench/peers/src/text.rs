//! Ids as text, and back.

use std::hint::black_box;
use std::io::Write;

use ferroid::base32::Base32SnowExt;
use snowid::base62;
use snowlease_bench::{Guard, generator, timed};
use snowlease_core::{Id, TextForm};
use ulid::Ulid;

use crate::contender::{About, Lane, Proof, Time, compare};
use crate::peers::{self, Classic, Shape};
use crate::row::Table;

/// Ids, or texts, in a round; read over and over, so they are in the nearest cache.
const TEXTS: usize = 1_000;
const TIMES: usize = 20;

/// Each form that ours can be compared in, written and read. What allocates is used as it is where
/// there is no other way.
pub(crate) fn forms() -> Table {
    let ids: Vec<Id> = generator(Shape::Classic.layout(), Guard::Counter).next_ids(TEXTS).unwrap();
    let theirs: Vec<Classic> = ids.iter().map(|id| Classic::from_raw(id.get())).collect();
    let numbers: Vec<u64> = ids.iter().map(|id| id.get()).collect();
    let tsids: Vec<tsid::TSID> = numbers.iter().map(|number| (*number).into()).collect();
    let ulids: Vec<Ulid> = (0..TEXTS).map(|_| Ulid::generate()).collect();
    let texts: Vec<String> =
        ids.iter().map(|id| TextForm::Crockford.encode(*id).to_string()).collect();
    // Ours always has 11 digits.
    let padded = ids.iter().map(|id| TextForm::Base62.encode(*id).to_string()).collect();
    let base62: Vec<String> = numbers.iter().map(|number| base62::encode(*number)).collect();
    let ulid_texts: Vec<String> = ulids.iter().map(Ulid::to_string).collect();
    let decimals: Vec<String> = numbers.iter().map(u64::to_string).collect();
    prove(&ids, &theirs, &texts, &decimals, &base62, &ulid_texts);
    let mut lanes = writing(ids, theirs, numbers, tsids, ulids);
    lanes.extend(reading(texts, decimals, padded, base62, ulid_texts));
    compare("text", "Ids as text (Crockford's base 32 unless it says else)", "ns/id", lanes)
}

fn writing(
    ids: Vec<Id>,
    theirs: Vec<Classic>,
    numbers: Vec<u64>,
    tsids: Vec<tsid::TSID>,
    ulids: Vec<Ulid>,
) -> Vec<Box<dyn Lane>> {
    let encode =
        |form: TextForm| move |id: &Id| _ = black_box(form.encode(black_box(*id)).as_str());
    vec![
        lane("snowlease", "encode", ids.clone(), |id| {
            // Named and not passed on, as a program would write it.
            black_box(TextForm::Crockford.encode(black_box(*id)).as_str());
        }),
        lane("ferroid", "encode", theirs, |id| {
            black_box(black_box(*id).encode().as_str());
        }),
        lane("tsid", "to_string", tsids, |id| {
            black_box(black_box(*id).to_string());
        }),
        lane("ulid", "encode, 128 bits", ulids, |id| {
            let mut bytes = [0; ulid::ULID_LEN];
            black_box(black_box(*id).array_to_str(&mut bytes));
        }),
        lane("snowlease", "encode, base 62", ids.clone(), encode(TextForm::Base62)),
        lane("snowid", "encode, base 62", numbers.clone(), |number| {
            let mut bytes = [0; base62::MAX_LEN];
            black_box(base62::encode_into(black_box(*number), &mut bytes));
        }),
        lane("snowlease", "encode, decimal", ids, encode(TextForm::Decimal)),
        lane("std", "write!, decimal", numbers, |number| {
            let mut bytes = [0; 20];
            write!(&mut bytes[..], "{}", black_box(*number)).unwrap();
            black_box(&bytes);
        }),
    ]
}

fn reading(
    texts: Vec<String>,
    decimals: Vec<String>,
    padded: Vec<String>,
    base62: Vec<String>,
    ulids: Vec<String>,
) -> Vec<Box<dyn Lane>> {
    let decode =
        |form: TextForm| move |text: &String| _ = black_box(form.decode(black_box(text)).unwrap());
    vec![
        lane("snowlease", "decode", texts.clone(), |text: &String| {
            black_box(TextForm::Crockford.decode(black_box(text)).unwrap());
        }),
        lane("ferroid", "decode", texts.clone(), |text| {
            black_box(Classic::decode(black_box(text.as_str())).unwrap());
        }),
        lane("tsid", "try_from", texts, |text| {
            black_box(tsid::TSID::try_from(black_box(text.as_str())).unwrap());
        }),
        lane("ulid", "decode, 128 bits", ulids, |text| {
            black_box(Ulid::from_string(black_box(text)).unwrap());
        }),
        lane("snowlease", "decode, base 62", padded, decode(TextForm::Base62)),
        lane("snowid", "decode, base 62", base62, |text| {
            black_box(base62::decode(black_box(text)).unwrap());
        }),
        lane("snowlease", "decode, decimal", decimals.clone(), decode(TextForm::Decimal)),
        lane("std", "parse, decimal", decimals, |text| {
            black_box(black_box(text).parse::<u64>().unwrap());
        }),
    ]
}

/// Shows that each reads what it wrote, and that both libraries with Crockford's base 32 for 64
/// bits write and read the same.
fn prove(
    ids: &[Id],
    theirs: &[Classic],
    texts: &[String],
    decimals: &[String],
    base62: &[String],
    ulids: &[String],
) {
    for (number, id) in ids.iter().enumerate() {
        for form in TextForm::ALL {
            assert_eq!(form.decode(&form.encode(*id)), Ok(*id), "{}", form.name());
        }
        assert_eq!(theirs[number].encode().as_str(), texts[number]);
        assert_eq!(Classic::decode(&texts[number]).unwrap().to_raw(), id.get());
        assert_eq!(tsid::TSID::try_from(texts[number].as_str()).unwrap().number(), id.get());
        assert_eq!(TextForm::Decimal.encode(*id).as_str(), decimals[number]);
        assert_eq!(base62::decode(&base62[number]).unwrap(), id.get());
        assert_eq!(Ulid::from_string(&ulids[number]).unwrap().to_string(), ulids[number]);
    }
}

struct Text<I, F> {
    about: About,
    inputs: Vec<I>,
    work: F,
}

fn lane<I, F>(package: &'static str, how: &'static str, inputs: Vec<I>, work: F) -> Box<dyn Lane>
where
    I: 'static,
    F: FnMut(&I) + 'static,
{
    Box::new(Text { about: peers::about(package, how, Time::None, 0), inputs, work })
}

impl<I, F: FnMut(&I)> Lane for Text<I, F> {
    fn round(&mut self) -> f64 {
        let ns = timed(|| (0..TIMES).for_each(|_| convert(&self.inputs, &mut self.work)));
        ns as f64 / (TIMES * self.inputs.len()) as f64
    }

    fn end(self: Box<Self>) -> (About, Proof) {
        (self.about, Proof::ReadBack)
    }
}

/// What is timed: one copy of this for each contender.
#[inline(never)]
fn convert<I>(inputs: &[I], work: &mut impl FnMut(&I)) {
    inputs.iter().for_each(work);
}
