//! Who holds a lease, for people to read: a label, never an identity.
//!
//! Ownership is shown with a [token](crate::token); two processes may carry the same label.

use std::fmt;

/// The label of a holder: name, machine, process and region.
///
/// Each part is at most [`Holder::MAX_BYTES`] long and has no [hidden](Holder::is_hidden)
/// characters; longer text is refused, never cut (a cut name has made two holders one elsewhere).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holder {
    name: String,
    machine: String,
    process: String,
    region: String,
}

impl Holder {
    /// The longest part, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 128;

    /// Makes a label; the parts may be empty except the name.
    ///
    /// # Errors
    ///
    /// [`HolderError`] names the part that is too long, empty to the eye or has hidden characters.
    pub fn new(
        name: impl Into<String>,
        machine: impl Into<String>,
        process: impl Into<String>,
        region: impl Into<String>,
    ) -> Result<Holder, HolderError> {
        let holder = Holder {
            name: name.into(),
            machine: machine.into(),
            process: process.into(),
            region: region.into(),
        };
        if holder.name.chars().all(|c| c.is_whitespace() || is_blank(c)) {
            return Err(HolderError { part: "name", fault: "is empty" });
        }
        for (part, text) in holder.parts() {
            if text.len() > Holder::MAX_BYTES {
                return Err(HolderError { part, fault: "is longer than 128 bytes" });
            }
            if text.chars().any(Holder::is_hidden) {
                return Err(HolderError { part, fault: "has control characters or hidden ones" });
            }
        }
        Ok(holder)
    }

    /// Whether a character cannot be seen and changes what can: it moves the cursor, breaks the
    /// line, turns the direction of writing or makes two names look the same.
    pub fn is_hidden(c: char) -> bool {
        c.is_control()
            || matches!(c,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    }

    /// The label of nobody, in a cell that no one holds.
    pub fn nobody() -> Holder {
        Holder::default()
    }

    /// The holder's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The machine it runs on.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// The process, usually its number.
    pub fn process(&self) -> &str {
        &self.process
    }

    /// The region it runs in.
    pub fn region(&self) -> &str {
        &self.region
    }

    pub(crate) fn parts(&self) -> [(&'static str, &str); 4] {
        [
            ("name", &self.name),
            ("machine", &self.machine),
            ("process", &self.process),
            ("region", &self.region),
        ]
    }

    /// A label read back from a store, where it was checked on its way in.
    pub(crate) fn from_stored([name, machine, process, region]: [String; 4]) -> Holder {
        Holder { name, machine, process, region }
    }
}

/// Whether a character is a letter or mark that shows nothing by itself.
fn is_blank(c: char) -> bool {
    matches!(c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
}

/// Why texts are no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderError {
    /// Which part.
    pub part: &'static str,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl fmt::Display for HolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the holder's {} {}: give 1 to 128 bytes of plain text", self.part, self.fault)
    }
}

impl std::error::Error for HolderError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_refused_and_never_cut() {
        let name = |name: &str| Holder::new(name, "", "", "").map_err(|error| error.fault);
        assert!(name("ip-10-0-0-1").is_ok());
        assert!(name(&"x".repeat(128)).is_ok());
        assert_eq!(name(&"x".repeat(129)), Err("is longer than 128 bytes"));
        for empty in ["", "  ", "\u{a0}\u{3000}", "\u{3164}", " \u{2800}\u{fe0f}"] {
            assert_eq!(name(empty), Err("is empty"), "{empty:?}");
        }
        assert!(name("wéb-日本 ☃\u{fe0f}").is_ok());
        let hidden = "\0\n\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200f}\u{2028}\u{2029}\
                      \u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{e0000}\u{e007f}";
        for c in hidden.chars() {
            let fault = Err("has control characters or hidden ones");
            assert_eq!(name(&format!("web{c}-0")), fault, "{c:?}");
            let region = Holder::new("web", "", "", c).map_err(|error| error.fault);
            assert_eq!(region.map(drop), fault.map(|_: Holder| ()), "{c:?}");
        }
    }
}
