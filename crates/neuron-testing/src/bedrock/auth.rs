//! Checks the API key or the signature of a request.

use super::error::ApiError;
use super::sigv4::{ALGORITHM, Signature};
use crate::loopback::RecordedRequest;
use crate::vendor::Rules;

/// The id of the access key that a server accepts.
pub(super) const ACCESS_KEY_ID: &str = "AKIDEXAMPLE";

/// The secret of this key. AWS's documentation has both values as examples.
pub(super) const SECRET_ACCESS_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// Checks the header `authorization`, which has a bearer key or a signature.
pub(super) fn check_key(request: &RecordedRequest, rules: &Rules) -> Result<(), ApiError> {
    match request.header("authorization") {
        Some(header) if header.starts_with(ALGORITHM) => check_signature(header, request),
        _ if rules.accepts_key(request.bearer()) => Ok(()),
        Some(_) => Err(denied(
            "AccessDeniedException",
            "Authentication failed: Please make sure your API Key is valid.",
        )),
        None => Err(denied("MissingAuthenticationTokenException", "Missing Authentication Token")),
    }
}

/// Checks that a request is signed with the key of the server, for Bedrock.
fn check_signature(header: &str, request: &RecordedRequest) -> Result<(), ApiError> {
    let Some(signature) = Signature::parse(header) else {
        return Err(denied(
            "IncompleteSignatureException",
            "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature' \
             parameters.",
        ));
    };
    if signature.access_key_id != ACCESS_KEY_ID {
        return Err(denied(
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        ));
    }
    let name = "InvalidSignatureException";
    if signature.service != "bedrock" {
        let message = "Credential should be scoped to correct service: 'bedrock'.";
        return Err(denied(name, message));
    }
    match signature.is_valid(request, SECRET_ACCESS_KEY) {
        true => Ok(()),
        false => Err(denied(
            name,
            "The request signature we calculated does not match the signature you provided. Check \
             your AWS Secret Access Key and signing method. Consult the service documentation for \
             details.",
        )),
    }
}

fn denied(exception: &str, message: &str) -> ApiError {
    ApiError::new(403, exception, message)
}
