//! Tests of the servers over real connections. The tests of the Anthropic server include the parts that are common to
//! all servers.

mod anthropic;
mod http;
mod ollama;
mod openai;
mod own_vendor;
