//! The servers over real connections: what they answer, refuse, break and notice. What they share is
//! tested with the Anthropic server.

mod anthropic;
mod http;
mod ollama;
mod openai;
mod own_vendor;
