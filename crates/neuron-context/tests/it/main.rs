//! Table tests and property tests of the strategies, with scripted models.

mod clearing;
mod composite;
mod properties;
mod summarization;
mod support;
