//! Checks images and documents against Bedrock's rules.

use super::*;
use crate::base64;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

fn asks(blocks: Vec<Value>) -> Value {
    json!({"messages": [{"role": "user", "content": blocks}]})
}

fn image(format: &str, bytes: &[u8]) -> Value {
    json!({"image": {"format": format, "source": {"bytes": base64::encode(bytes)}}})
}

fn document(name: &str) -> Value {
    json!({"document": {"format": "pdf", "name": name, "source": {"bytes": "JVBERi0xLjQK"}}})
}

fn about(blocks: impl IntoIterator<Item = Value>) -> Value {
    asks(blocks.into_iter().chain([json!({"text": "What is this?"})]).collect())
}

#[test]
fn valid_media_is_accepted() {
    accepts(asks(vec![image("png", PNG)]));
    accepts(about(vec![image("jpeg", b"\xff\xd8\xff"); 20]));
    accepts(about([image("webp", b"unknown bytes")]));
    let place = json!({"s3Location": {"uri": "s3://bucket/a.png", "bucketOwner": "123456789012"}});
    accepts(about([json!({"image": {"format": "png", "source": place}})]));
    accepts(about((0..5).map(|index| document(&format!("a ({index}) [b]-c")))));
    let text = json!({"name": "n", "source": {"text": "Chapter one."}});
    accepts(about([json!({"document": text})]));
    let chunks = json!({"name": "n", "source": {"content": [{"text": "one"}]}, "context": "c"});
    accepts(about([json!({"document": chunks})]));
}

#[test]
fn number_of_media_is_limited() {
    refuses(
        about(vec![image("png", PNG); 21]),
        "You can't include more than 20 images in a request.",
    );
    refuses(
        about((0..6).map(|index| document(&format!("a{index}")))),
        "You can't include more than 5 documents in a request.",
    );
    let documents = (0..5).map(|index| document(&format!("a{index}")));
    let both = about(documents.chain(vec![image("png", PNG); 16]));
    claude_refuses(both.clone(), "messages: too many images and documents: 16 + 5 > 20");
    accepts_at(NOVA, both);
}

#[test]
fn sizes_and_formats_are_checked() {
    let mut large = PNG.to_vec();
    large.resize(3_932_161, 0);
    claude_refuses(
        asks(vec![image("png", &large)]),
        "messages.0.content.0.image.source.base64: image exceeds 3.75 MB maximum: 3932161 bytes > \
         3932160 bytes",
    );
    claude_refuses(
        asks(vec![image("jpeg", PNG)]),
        "messages.0.content.0.image.source.base64: The image was specified using the image/jpeg \
         media type, but the image appears to be a image/png image",
    );
    breaks(
        asks(vec![image("tiff", PNG)]),
        "'tiff' at 'messages.1.member.content.1.member.image.format'",
        "Member must satisfy enum value set: [png, jpeg, gif, webp]",
    );
    let mut document = document("a");
    document["document"]["source"]["bytes"] = base64::encode(&vec![0; 4_718_593]).into();
    refuses(
        about([document]),
        "The document file at messages.0.content.0.document exceeds the maximum size of 4.5 MB.",
    );
}

#[test]
fn sources_are_base64_or_a_place() {
    let source = |source: Value| asks(vec![json!({"image": {"format": "png", "source": source}})]);
    for bytes in ["?", "AAA", "data:image/png;base64,AAAA"] {
        mistypes(
            source(json!({"bytes": bytes})),
            "Unable to deserialize the base64 encoded value.",
        );
    }
    breaks(
        source(json!({"bytes": ""})),
        "at 'messages.1.member.content.1.member.image.source.bytes'",
        "Member must have length greater than or equal to 1",
    );
    breaks(
        source(json!({})),
        "null at 'messages.1.member.content.1.member.image.source'",
        "Member must not be null",
    );
    breaks(
        source(json!({"s3Location": {"uri": "https://images.example/a.png"}})),
        "at 'messages.1.member.content.1.member.image.source.s3Location.uri'",
        "Member must satisfy regular expression pattern: \
         s3://[a-z0-9][\\.\\-a-z0-9]{1,61}[a-z0-9](/.*)?",
    );
    refuses(
        source(json!({"url": "https://images.example/a.png"})),
        "Malformed input request: #/messages/0/content/0/image/source: extraneous key [url] is not \
         permitted, please reformat your input and try again.",
    );
    let document = json!({"document": {"name": "a", "source": {"bytes": "AAAA"}}});
    breaks(
        about([document]),
        "null at 'messages.1.member.content.1.member.document.format'",
        "Member must not be null",
    );
}

#[test]
fn documents_need_a_text_and_different_names() {
    refuses(asks(vec![document("a")]), "A text block must be included when using documents.");
    refuses(
        about([document("a"), document("a")]),
        "Messages can't contain duplicate document names. Rename the document and retry your \
         request.",
    );
    for name in ["report.pdf", "a  b", "a_b", "é"] {
        refuses(
            about([document(name)]),
            "The document file name can only contain alphanumeric characters, whitespace \
             characters, hyphens, parentheses, and square brackets. The name can't contain more \
             than one consecutive whitespace character.",
        );
    }
    let place = "at 'messages.1.member.content.1.member.document.name'";
    let nonempty = "Member must have length greater than or equal to 1";
    breaks(about([document("")]), place, nonempty);
    let short = "Member must have length less than or equal to 200";
    breaks(about([document(&"a".repeat(201))]), place, short);
}
