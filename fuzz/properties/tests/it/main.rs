//! Tests the properties on valid and on broken inputs.

mod mutation;
mod regressions;
mod smoke;
