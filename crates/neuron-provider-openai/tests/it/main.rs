//! The provider over real connections. One binary, so that it links once.

mod conformance;
