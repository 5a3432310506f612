//! URLs of lease services: `http://HOST[:PORT][/PREFIX]`.

use std::fmt;

use ureq::http::Uri;

/// The URL without a slash at its end, to which paths are added.
pub(crate) fn base(url: &str) -> Result<String, UrlError> {
    if url.starts_with("https://") {
        return Err(UrlError::NoTls);
    }
    if !url.starts_with("http://") {
        return Err(UrlError::Scheme);
    }
    let uri: Uri = url.parse().map_err(|_| UrlError::Malformed)?;
    let Some(authority) = uri.authority() else { return Err(UrlError::Malformed) };
    if authority.as_str().contains('@') {
        return Err(UrlError::Secret);
    }
    let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    let port_fits = port.is_empty() || authority.port_u16().is_some_and(|port| port > 0);
    if authority.host().is_empty() || !port_fits || uri.query().is_some() || url.contains('#') {
        return Err(UrlError::Malformed);
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Why a text is no URL of a lease service. Never repeats the text, which may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// It is `https://`, and this build has no TLS. Use `http://` inside a network you trust, or a
    /// local proxy that speaks TLS.
    NoTls,
    /// It does not begin with `http://`. Write it so.
    Scheme,
    /// It has a user or a password in it, which would end up in logs. Leave them out.
    Secret,
    /// It has no host, or a query or fragment. Write `http://HOST:PORT`.
    Malformed,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UrlError::NoTls => {
                "this build has no TLS: use http:// inside a network you trust, or a local proxy \
                 that speaks https://"
            }
            UrlError::Scheme => "the URL of a lease service is http://HOST:PORT",
            UrlError::Secret => {
                "the URL of a lease service holds no user or password: leave them out"
            }
            UrlError::Malformed => {
                "the URL is malformed: write http://HOST:PORT, without query or fragment"
            }
        })
    }
}

impl std::error::Error for UrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_urls_are_taken() {
        for (url, expected) in [
            ("http://ids.internal:8700", Ok("http://ids.internal:8700")),
            ("http://ids.internal:8700/", Ok("http://ids.internal:8700")),
            ("http://[::1]:8700", Ok("http://[::1]:8700")),
            ("http://proxy/ids/", Ok("http://proxy/ids")),
            ("https://ids.internal", Err(UrlError::NoTls)),
            ("HTTP://ids.internal", Err(UrlError::Scheme)),
            ("ids.internal:8700", Err(UrlError::Scheme)),
            ("", Err(UrlError::Scheme)),
            ("http://", Err(UrlError::Malformed)),
            ("http://:8700", Err(UrlError::Malformed)),
            ("http://a b", Err(UrlError::Malformed)),
            ("http://host:99999", Err(UrlError::Malformed)),
            ("http://host?x=1", Err(UrlError::Malformed)),
            ("http://host/#x", Err(UrlError::Malformed)),
            ("http://user:hunter2@host", Err(UrlError::Secret)),
        ] {
            assert_eq!(base(url), expected.map(str::to_owned), "{url}");
        }
    }
}
