//! Checks requests for embeddings against Gemini's rules.

use serde_json::{Value, json};

use super::route;
use crate::gemini::check::check_embeddings_request;

#[test]
fn embeddings_need_the_model_of_the_path_and_texts() {
    let route = route("/v1beta/models/gemini-embedding-2:batchEmbedContents");
    let request = |fields: Value| {
        let mut request = json!({
            "model": "models/gemini-embedding-2",
            "content": {"parts": [{"text": "one"}]},
        });
        for (key, value) in fields.as_object().unwrap() {
            request[key] = value.clone();
        }
        request
    };
    let check = |requests: Value| {
        check_embeddings_request(&json!({"requests": requests}), &route)
            .map_err(|error| error.message)
    };
    let valid = json!({"taskType": "RETRIEVAL_DOCUMENT", "title": "a", "outputDimensionality": 3});
    assert_eq!(check(json!([request(json!({})), request(valid)])), Ok(()));
    let refuses = |requests: Value, expected: &str| {
        assert_eq!(check(requests), Err(expected.to_owned()));
    };
    refuses(json!([]), "* BatchEmbedContentsRequest.requests: at least one request is required");
    let many = |count: usize| Value::from(vec![request(json!({})); count]);
    assert_eq!(check(many(100)), Ok(()));
    refuses(
        many(101),
        "* GenerateContentRequest.requests: at most 100 requests are allowed, but 101 are set",
    );
    refuses(
        json!([request(json!({"model": "gemini-embedding-2"}))]),
        "* BatchEmbedContentsRequest.requests[0].model: model must be the model of the batch",
    );
    refuses(
        json!([request(json!({})), request(json!({"content": {"parts": []}}))]),
        "* BatchEmbedContentsRequest.requests[1].content: content must have parts with text",
    );
    refuses(
        json!([request(json!({"dimensions": 3}))]),
        "Invalid JSON payload received. Unknown name \"dimensions\" at 'requests[0]': Cannot find \
         field.",
    );
}

/// Checks the body of a request for embeddings to Vertex AI.
fn check_vertex(model_and_method: &str, body: Value) -> Result<(), String> {
    let path =
        format!("/v1beta1/projects/p/locations/eu/publishers/google/models/{model_and_method}");
    check_embeddings_request(&body, &route(&path)).map_err(|error| error.message)
}

#[test]
fn embeddings_of_vertex_have_settings_in_an_object() {
    let content = json!({"parts": [{"text": "one"}]});
    let config = json!({"taskType": "CLUSTERING", "title": "a", "outputDimensionality": 3, "autoTruncate": true});
    let single = "gemini-embedding-2:embedContent";
    let batch = "gemini-embedding-2:batchEmbedContents";
    let item = json!({"content": content, "embedContentConfig": config});
    assert_eq!(check_vertex(single, item.clone()), Ok(()));
    assert_eq!(check_vertex("e5-maas:embedContent", json!({"content": content})), Ok(()));
    assert_eq!(check_vertex(batch, json!({"requests": [item, {"content": content}]})), Ok(()));
    for (method, body, expected) in [
        (
            single,
            json!({}),
            "* BatchEmbedContentsRequest.content: content must have parts with text",
        ),
        (
            single,
            json!({"content": content, "embedContentConfig": {"dimensions": 3}}),
            "Invalid JSON payload received. Unknown name \"dimensions\" at \
             'embed_content_config': Cannot find field.",
        ),
        (
            single,
            json!({"requests": [{"content": content}]}),
            "Invalid JSON payload received. Unknown name \"requests\": Cannot find field.",
        ),
        (
            batch,
            json!({"requests": []}),
            "* BatchEmbedContentsRequest.requests: at least one request is required",
        ),
        (
            batch,
            json!({"requests": [{"content": content}, {}]}),
            "* BatchEmbedContentsRequest.requests[1].content: content must have parts with text",
        ),
        (
            batch,
            json!({"content": content}),
            "Invalid JSON payload received. Unknown name \"content\": Cannot find field.",
        ),
    ] {
        assert_eq!(check_vertex(method, body), Err(expected.to_owned()));
    }
}

#[test]
fn predictions_need_instances_with_their_own_settings() {
    let method = "text-embedding-005:predict";
    let valid = json!({
        "instances": [{"content": "one", "task_type": "CLUSTERING", "title": "a"}, {"content": "two"}],
        "parameters": {"outputDimensionality": 3, "autoTruncate": false},
    });
    assert_eq!(check_vertex(method, valid), Ok(()));
    let many = |count: usize| json!({"instances": vec![json!({"content": "one"}); count]});
    assert_eq!(check_vertex(method, many(250)), Ok(()));
    assert_eq!(check_vertex("gemini-embedding-001:predict", many(1)), Ok(()));
    for (method, body) in [
        (method, many(251)),
        (method, many(0)),
        (method, json!({})),
        (method, json!({"instances": [{}]})),
        (method, json!({"instances": [{"content": "one", "taskType": "CLUSTERING"}]})),
        (
            method,
            json!({"instances": [{"content": "one"}], "parameters": {"task_type": "CLUSTERING"}}),
        ),
        ("gemini-embedding-001:predict", many(2)),
    ] {
        assert!(check_vertex(method, body.clone()).is_err(), "{method}: {body}");
    }
}

#[test]
fn method_of_embeddings_must_fit_the_model() {
    let bodies = [
        ("embedContent", json!({"content": {"parts": [{"text": "one"}]}})),
        ("batchEmbedContents", json!({"requests": [{"content": {"parts": [{"text": "one"}]}}]})),
        ("predict", json!({"instances": [{"content": "one"}]})),
    ];
    for (model, expected) in [
        ("gemini-embedding-2", [true, true, false]),
        ("gemini-embedding-001", [true, true, true]),
        ("e5-maas", [true, false, false]),
        ("text-embedding-005", [false, false, true]),
    ] {
        for ((method, body), is_accepted) in bodies.iter().zip(expected) {
            let checked = check_vertex(&format!("{model}:{method}"), body.clone());
            let refusal = Err("Precondition check failed.".to_owned());
            assert_eq!(checked, if is_accepted { Ok(()) } else { refusal }, "{model} {method}");
        }
    }
}
