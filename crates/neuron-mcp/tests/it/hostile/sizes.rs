//! Tests with servers that send messages of 100 MB.

use crate::hostile::alone::{alone, assert_peak_below};
use crate::hostile::server::{call, client, connect, program};

#[test]
fn huge_result_is_an_error_with_bounded_memory() {
    alone("hostile::sizes::huge_result_is_an_error_with_bounded_memory", &[], async {
        let client = connect("serves").await;
        for tool in ["huge", "huge, id last"] {
            let error = call(&client, tool).await.unwrap_err().to_string();
            let limit = "more than 16777216 bytes, a limit of this client (`max_message_bytes`)";
            assert!(error.contains(limit), "{error}");
            assert!(!error.contains("refused"), "{error}");
            assert_eq!(call(&client, "fine").await.unwrap(), "fine");
        }
        assert_peak_below(150);
    });
}

#[test]
fn huge_line_that_is_no_response_is_skipped() {
    alone("hostile::sizes::huge_line_that_is_no_response_is_skipped", &[], async {
        let client =
            client().max_message_bytes(10_000).connect_stdio(program("serves")).await.unwrap();
        assert_eq!(call(&client, "no end of a line").await.unwrap(), "fine");
        assert_peak_below(100);
    });
}
