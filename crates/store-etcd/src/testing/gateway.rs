//! etcd's JSON gateway, for what tests set up and stores never do: users, compaction, alarms.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Posts JSON to a path of an endpoint, and answers the body; the status line if it is no success.
pub(super) fn post(host: &str, path: &str, token: &str, body: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(host).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let token =
        if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\n{token}Content-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut answer = String::new();
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()))
        .and_then(|()| stream.read_to_string(&mut answer))
        .map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    if head.starts_with("HTTP/1.1 200") { Ok(body.to_owned()) } else { Err(answer.clone()) }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes of base64.
pub(super) fn unbase64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter(|digit| *digit != b'=') {
        let value = DIGITS.iter().position(|known| *known == digit).unwrap();
        bits = bits << 6 | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

/// Base64, as the gateway takes bytes.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            let digit = char::from(DIGITS[usize::try_from(digit).unwrap()]);
            text.push(if place <= group.len() { digit } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_become_base64() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(super::base64(bytes.as_bytes()), text);
            assert_eq!(super::unbase64(text), bytes.as_bytes());
        }
    }
}
