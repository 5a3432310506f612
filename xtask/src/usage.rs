//! A wrong call: told apart from a failed chore, and answered with the nearest right one.

use std::fmt;

/// The command line itself is wrong; nothing was done.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// `given` is no `kind` there is: says which name is nearest, or else which there are.
pub(crate) fn unknown<'a>(
    kind: &str,
    given: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Usage {
    let nearest = names.clone().min_by_key(|name| distance(given, name));
    let hint = match nearest {
        Some(name) if distance(given, name) <= 2 => format!("did you mean `{name}`?"),
        _ => format!("there are: {}", names.collect::<Vec<_>>().join(", ")),
    };
    Usage(format!("no {kind} `{given}`; {hint}"))
}

/// The stage named by `--only STAGE`, if that is what the arguments say.
pub(crate) fn only<'a>(
    arguments: &[String],
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<&'a str>, Usage> {
    let given = match arguments {
        [] => return Ok(None),
        [flag, given] if flag == "--only" => given,
        _ => return Err(Usage(format!("expected nothing or `--only STAGE`, got {arguments:?}"))),
    };
    let found = names.clone().find(|name| name == given);
    found.map(Some).ok_or_else(|| unknown("stage", given, names))
}

/// Letters to insert, delete or replace to turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["check", "loom"];

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("tidy", "tidy"), 0);
        assert_eq!(distance("chekc", "check"), 2);
    }

    #[test]
    fn a_name_far_from_all_gets_the_list() {
        let usage = unknown("stage", "zzzzzzzz", NAMES.into_iter());
        assert_eq!(usage.to_string(), "no stage `zzzzzzzz`; there are: check, loom");
    }

    #[test]
    fn only_takes_one_known_stage() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let parse = |line| only(&words(line), NAMES.into_iter());
        assert_eq!(parse("").unwrap(), None);
        assert_eq!(parse("--only loom").unwrap(), Some("loom"));
        assert!(parse("--only lom").unwrap_err().to_string().contains("`loom`?"));
        assert!(parse("--onyl loom").is_err());
        assert!(parse("--only").is_err());
    }
}
