//! Tests that the suites accept correct providers and session storages, and detect the faults of broken ones.

mod json;
mod provider;
mod sessions;
