//! Tests of the loopback servers over real connections. The tests of the Anthropic server also cover the code that all
//! servers share.

mod anthropic;
mod bedrock;
mod gemini;
mod http;
mod ollama;
mod openai;
mod own_vendor;
