//! Runs the programs of the book, and checks what the pages say about them.

mod extend;
mod programs;
mod readme;
mod testing;

/// This program has tests, which the book shows.
#[expect(
    dead_code,
    unreachable_pub,
    reason = "its `main` runs in the test `programs::custom_storage`"
)]
#[path = "../../programs/custom_storage.rs"]
mod custom_storage;
