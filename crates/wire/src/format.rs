//! The format of ids on the wire.

use serde::{Deserialize, Serialize};
use snowlease_core::{Format, FormatError, Layout, LayoutError};

/// A format: how the ids of a service are made up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FormatDoc {
    /// Widths of tick, generator id and sequence in bits.
    #[cfg_attr(feature = "openapi", schema(examples("t41g10s12")))]
    pub layout: String,
    /// Length of a tick in milliseconds.
    pub tick_ms: u32,
    /// The instant of tick 0, in Unix milliseconds.
    pub epoch_ms: i64,
    /// Sixteen hex digits that differ between formats.
    pub fingerprint: String,
}

/// What a holder says of the format it issues by; each member that is given must be the service's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FormatAsk {
    /// As in [`FormatDoc`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// As in [`FormatDoc`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_ms: Option<u32>,
    /// As in [`FormatDoc`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_ms: Option<i64>,
    /// As in [`FormatDoc`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// Why a document is no format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatDocError {
    /// The layout is none.
    Layout(LayoutError),
    /// Tick length or epoch is out of bounds.
    Format(FormatError),
    /// The fingerprint is none: write 16 lower-case hex digits.
    Fingerprint,
}

impl std::fmt::Display for FormatDocError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FormatDocError::Layout(error) => error.fmt(f),
            FormatDocError::Format(error) => error.fmt(f),
            FormatDocError::Fingerprint => {
                f.write_str("a fingerprint is 16 lower-case hex digits: copy it as it is")
            }
        }
    }
}

impl std::error::Error for FormatDocError {}

/// The text of a fingerprint on the wire: 16 lower-case hex digits.
pub(crate) fn fingerprint(format: Format) -> String {
    format!("{:016x}", format.fingerprint())
}

impl From<Format> for FormatDoc {
    fn from(format: Format) -> FormatDoc {
        FormatDoc {
            layout: format.layout().to_string(),
            tick_ms: format.tick_ms(),
            epoch_ms: format.epoch_ms(),
            fingerprint: fingerprint(format),
        }
    }
}

impl From<Format> for FormatAsk {
    fn from(format: Format) -> FormatAsk {
        let FormatDoc { layout, tick_ms, epoch_ms, fingerprint } = format.into();
        FormatAsk {
            layout: Some(layout),
            tick_ms: Some(tick_ms),
            epoch_ms: Some(epoch_ms),
            fingerprint: Some(fingerprint),
        }
    }
}

/// Reads a format from its first three members; the fingerprint follows from them.
impl TryFrom<&FormatDoc> for Format {
    type Error = FormatDocError;

    fn try_from(doc: &FormatDoc) -> Result<Format, FormatDocError> {
        let layout = doc.layout.parse().map_err(FormatDocError::Layout)?;
        Format::new(layout, doc.tick_ms, doc.epoch_ms).map_err(FormatDocError::Format)
    }
}

impl FormatAsk {
    /// Checks that every member that is given is one of some format.
    ///
    /// # Errors
    ///
    /// [`FormatDocError`] for the first one that is of none.
    pub fn check(&self) -> Result<(), FormatDocError> {
        if let Some(layout) = &self.layout {
            layout.parse::<Layout>().map_err(FormatDocError::Layout)?;
        }
        let default = Format::DEFAULT;
        let tick_ms = self.tick_ms.unwrap_or(default.tick_ms());
        let epoch_ms = self.epoch_ms.unwrap_or(default.epoch_ms());
        Format::new(default.layout(), tick_ms, epoch_ms).map_err(FormatDocError::Format)?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match &self.fingerprint {
            Some(text) if text.len() != 16 || !text.bytes().all(is_hex) => {
                Err(FormatDocError::Fingerprint)
            }
            _ => Ok(()),
        }
    }

    /// Whether every member that is given is that of `format`.
    pub fn fits(&self, format: Format) -> bool {
        let FormatDoc { layout, tick_ms, epoch_ms, fingerprint } = format.into();
        self.layout.as_ref().is_none_or(|asked| *asked == layout)
            && self.tick_ms.is_none_or(|asked| asked == tick_ms)
            && self.epoch_ms.is_none_or(|asked| asked == epoch_ms)
            && self.fingerprint.as_ref().is_none_or(|asked| *asked == fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_survives_its_document() {
        let format = Format::new(Layout::FLEET, 10, -5).unwrap();
        assert_eq!(Format::try_from(&FormatDoc::from(format)), Ok(format));
        assert!(FormatAsk::from(format).fits(format));
    }

    #[test]
    fn each_member_that_is_given_must_fit() {
        let fits = |text: &str| {
            serde_json::from_str::<FormatAsk>(text).map(|ask| ask.fits(Format::DEFAULT))
        };
        assert!(fits("{}").unwrap());
        assert!(fits(r#"{"layout":"t41g10s12","tick_ms":1}"#).unwrap());
        assert!(!fits(r#"{"layout":"t41g13s9"}"#).unwrap());
        assert!(!fits(r#"{"tick_ms":10}"#).unwrap());
        assert!(!fits(r#"{"epoch_ms":0}"#).unwrap());
        assert!(!fits(r#"{"fingerprint":"0000000000000000"}"#).unwrap());
        assert!(fits(r#"{"tick":1}"#).is_err());
    }
    #[test]
    fn what_is_of_no_format_is_malformed_and_of_another_one_is_not() {
        let check = |text: &str| serde_json::from_str::<FormatAsk>(text).unwrap().check();
        for good in [
            "{}",
            r#"{"layout":"t41g13s9","tick_ms":10,"epoch_ms":0}"#,
            r#"{"fingerprint":"0000000000000000"}"#,
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            r#"{"layout":"xx"}"#,
            r#"{"layout":"t41g10s13"}"#,
            r#"{"tick_ms":0}"#,
            r#"{"tick_ms":4294967295}"#,
            r#"{"epoch_ms":9223372036854775807}"#,
            r#"{"fingerprint":""}"#,
            r#"{"fingerprint":"000000000000000G"}"#,
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
