//! The body of a request ([`RequestBody`]).

use bytes::Bytes;

use crate::OriginalNames;

/// The JSON body of a request, with the original names of tools that have another name in the request.
///
/// The names are restored in the [`Reply`](crate::Reply), and in the error of a rejected request. A body without such
/// names can be converted from bytes.
#[derive(Debug)]
pub struct RequestBody {
    pub(crate) json: Bytes,
    pub(crate) names: OriginalNames,
}

impl RequestBody {
    /// Creates the body of a request in which these tools have another name.
    #[must_use]
    pub fn new(json: Vec<u8>, names: OriginalNames) -> Self {
        Self { json: json.into(), names }
    }
}

impl From<Vec<u8>> for RequestBody {
    fn from(json: Vec<u8>) -> Self {
        Self::new(json, OriginalNames::default())
    }
}
