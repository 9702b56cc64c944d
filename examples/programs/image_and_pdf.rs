//! Sends an image and a PDF to the model in one message.

// ANCHOR: imports
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::types::{DocumentSource, ImageSource, MediaError};
// ANCHOR_END: imports

/// A red pixel as a PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\
    \x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xf7\
    \x03AC\x00\x00\x00\x00IEND\xaeB`\x82";

/// A page with one line of text as a PDF file.
const PDF: &str = "%PDF-1.4
1 0 obj
<</Type/Catalog/Pages 2 0 R>>
endobj
2 0 obj
<</Type/Pages/Kids[3 0 R]/Count 1>>
endobj
3 0 obj
<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 50]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>
endobj
4 0 obj
<</Length 43>>
stream
BT /F1 12 Tf 10 20 Td (Total: 42 EUR) Tj ET
endstream
endobj
5 0 obj
<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>
endobj
xref
0 6
0000000000 65535 f\x20
0000000009 00000 n\x20
0000000054 00000 n\x20
0000000105 00000 n\x20
0000000216 00000 n\x20
0000000307 00000 n\x20
trailer <</Root 1 0 R/Size 6>>
startxref
370
%%EOF
";

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // Your program has its own files.
    tokio::fs::write("logo.png", PNG).await?;
    tokio::fs::write("invoice.pdf", PDF).await?;
    let agent = Agent::builder(Anthropic::from_env()?).build();

    // ANCHOR: message
    let logo = ImageSource::from_bytes(tokio::fs::read("logo.png").await?)?;
    let invoice = DocumentSource::from_bytes(tokio::fs::read("invoice.pdf").await?)?;
    let question = "What color is the logo, and what is the total of the invoice?";
    let message = Message {
        role: Role::User,
        content: vec![logo.into(), invoice.into(), ContentBlock::Text(question.into())],
    };

    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, message).await?;
    println!("{}", result.response);
    // ANCHOR_END: message

    // ANCHOR: url
    // The vendor downloads the file.
    let photo = ImageSource::Url { url: "https://example.org/photo.jpg".into() };
    let content = vec![photo.into(), ContentBlock::Text("And what is in this photo?".into())];
    let message = Message { role: Role::User, content };
    let result = agent.run(&mut conversation, message).await?;
    println!("{}", result.response);
    // ANCHOR_END: url

    // ANCHOR: error
    match ImageSource::from_bytes("<svg></svg>") {
        Err(error @ MediaError::Type { .. }) => println!("not sent: {error}"),
        outcome => println!("unexpected: {outcome:?}"),
    }
    // ANCHOR_END: error
    Ok(())
}
