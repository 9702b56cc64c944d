//! Verifies the signature of a request, as version 4 of AWS's signature process defines it.
//!
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use hmac_sha256::{HMAC, Hash};

use crate::loopback::RecordedRequest;

/// The first word of the header `authorization` of a signed request.
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Headers that every signature must cover.
const REQUIRED: [&str; 2] = ["host", "x-amz-date"];

/// The signature in the header `authorization` of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signature<'a> {
    /// The id of the key.
    pub(super) access_key_id: &'a str,
    /// The day of the signature, as eight digits.
    pub(super) date: &'a str,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    /// The names of the signed headers.
    headers: Vec<&'a str>,
    /// The signature in hexadecimal digits.
    digits: &'a str,
}

impl<'a> Signature<'a> {
    /// Parses the value of the header `authorization`. Returns `None` if a part is missing.
    pub(super) fn parse(authorization: &'a str) -> Option<Self> {
        let fields = authorization.strip_prefix(ALGORITHM)?;
        let field = |name: &str| {
            let mut fields = fields.split(',').map(str::trim);
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let scope: Vec<&str> = field("Credential")?.split('/').collect();
        let [access_key_id, date, region, service, "aws4_request"] = *scope.as_slice() else {
            return None;
        };
        let headers = field("SignedHeaders")?.split(';').collect();
        let digits = field("Signature")?;
        Some(Self { access_key_id, date, region, service, headers, digits })
    }

    /// Returns `true` if the request was signed with this secret key.
    ///
    /// The date of the signature is not compared with the clock.
    pub(super) fn is_valid(&self, request: &RecordedRequest, secret: &str) -> bool {
        let time = request.header("x-amz-date").unwrap_or_default();
        let signs_all = REQUIRED.iter().all(|name| self.headers.contains(name));
        // The token of temporary keys has no effect unless the signature covers the token.
        let signs_token = request.header("x-amz-security-token").is_none()
            || self.headers.contains(&"x-amz-security-token");
        if !(signs_all && signs_token && time.starts_with(self.date)) {
            return false;
        }
        let Some(canonical) = self.canonical(request) else { return false };
        let scope = [self.date, self.region, self.service, "aws4_request"];
        let text =
            [ALGORITHM, time, &scope.join("/"), &hexadecimal(&Hash::hash(canonical.as_bytes()))]
                .join("\n");
        let secret = format!("AWS4{secret}").into_bytes();
        let key = scope.iter().fold(secret, |key, part| code(&key, part.as_bytes()));
        hexadecimal(&code(&key, text.as_bytes())) == self.digits
    }

    /// Returns the parts of the request that are signed, in AWS's canonical form. Returns `None` if a signed header is
    /// missing.
    fn canonical(&self, request: &RecordedRequest) -> Option<String> {
        let mut headers = String::new();
        for name in &self.headers {
            let value = request.header(name)?.split_whitespace().collect::<Vec<_>>().join(" ");
            headers.push_str(&format!("{name}:{value}\n"));
        }
        let mut query: Vec<&str> =
            request.query.split('&').filter(|pair| !pair.is_empty()).collect();
        query.sort_unstable();
        Some(format!(
            "{}\n{}\n{}\n{headers}\n{}\n{}",
            request.method,
            // The path is already encoded once. Only S3 does not encode the path again.
            encoded(&request.path),
            query.join("&"),
            self.headers.join(";"),
            hexadecimal(&Hash::hash(&request.body)),
        ))
    }
}

/// Percent-encodes a path. Slashes are kept.
fn encoded(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Returns the HMAC-SHA256 of a text.
fn code(key: &[u8], text: &[u8]) -> Vec<u8> {
    HMAC::mac(text, key).to_vec()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "AKIDEXAMPLE";
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const SCOPE: &str = "Credential=AKIDEXAMPLE/20261127/us-east-1/bedrock/aws4_request";

    /// A request that botocore 1.44.8 signed.
    fn signed(others: &[(&str, &str)], headers: &str, signature: &str) -> RecordedRequest {
        let authorization =
            format!("{ALGORITHM} {SCOPE}, SignedHeaders={headers}, Signature={signature}");
        let fixed = [
            ("host", "127.0.0.1:4321"),
            ("content-type", "application/json"),
            ("x-amz-date", "20261127T193000Z"),
            ("authorization", &authorization),
        ];
        let path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse";
        let mut request = http::Request::post(path);
        for (name, value) in fixed.iter().chain(others) {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        RecordedRequest::new(&head, &bytes::Bytes::from_static(br#"{"messages":[]}"#))
    }

    fn plain() -> RecordedRequest {
        let digits = "55f15ba8667524a65db3b040227f0c01042ec0477e4a0d05ee274d61852db9f9";
        signed(&[], "content-type;host;x-amz-date", digits)
    }

    fn temporary(headers: &str) -> RecordedRequest {
        let digits = "b04054b3aaba7eb9528f1c6b8cce2fa1e3325dd733827424fe6cf0e967b83d60";
        signed(&[("x-amz-security-token", "tok/en==")], headers, digits)
    }

    fn is_valid(request: &RecordedRequest, secret: &str) -> bool {
        let signature = Signature::parse(request.header("authorization").unwrap()).unwrap();
        assert_eq!((signature.access_key_id, signature.service), (ID, "bedrock"));
        signature.is_valid(request, secret)
    }

    #[test]
    fn signatures_of_botocore_are_valid() {
        assert!(is_valid(&plain(), SECRET));
        assert!(is_valid(&temporary("content-type;host;x-amz-date;x-amz-security-token"), SECRET));
    }

    #[test]
    fn signature_is_invalid_after_any_change() {
        assert!(!is_valid(&plain(), "another secret"));
        let changes: [fn(&mut RecordedRequest); 6] = [
            |it| it.method = "PUT".into(),
            |it| it.path.push('2'),
            |it| it.query = "a=1".into(),
            |it| it.body.push(b' '),
            |it| it.headers[0].1 = "localhost".into(),
            |it| it.headers[2].1 = "20261128T193000Z".into(),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut request = plain();
            change(&mut request);
            assert!(!is_valid(&request, SECRET), "change {index}");
        }
        assert!(!is_valid(&temporary("content-type;host;x-amz-date"), SECRET));
        assert!(!is_valid(&signed(&[], "content-type;host", "00"), SECRET));
        assert!(!is_valid(&signed(&[], "host;x-amz-date;x-missing", "00"), SECRET));
    }

    #[test]
    fn incomplete_headers_have_no_signature() {
        for header in [
            String::new(),
            "Bearer key".into(),
            ALGORITHM.into(),
            format!("{ALGORITHM} {SCOPE}, SignedHeaders=host"),
            format!("{ALGORITHM} {SCOPE}, Signature=00"),
            format!("{ALGORITHM} Credential=a/b/c/aws4_request, SignedHeaders=host, Signature=00"),
        ] {
            assert_eq!(Signature::parse(&header), None, "{header}");
        }
    }
}
