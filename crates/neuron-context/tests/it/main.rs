//! The strategies from outside: by table, with scripted models, and by property.

mod clearing;
mod composite;
mod properties;
mod summarization;
mod support;
