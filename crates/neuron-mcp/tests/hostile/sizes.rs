//! Servers that send more than anybody wants, in one piece.

use crate::alone::{alone, assert_peak_below};
use crate::server::{call, client, connect, program};

#[test]
fn a_result_of_a_hundred_megabytes_is_a_clear_error_and_needs_no_memory() {
    alone(
        "sizes::a_result_of_a_hundred_megabytes_is_a_clear_error_and_needs_no_memory",
        &[],
        async {
            let client = connect("serves").await;
            for tool in ["huge", "huge, id last"] {
                let error = call(&client, tool).await.unwrap_err().to_string();
                let limit =
                    "more than 16777216 bytes, a limit of this client (`max_message_bytes`)";
                assert!(error.contains(limit), "{error}");
                assert!(!error.contains("refused"), "{error}");
                assert_eq!(call(&client, "fine").await.unwrap(), "fine");
            }
            assert_peak_below(150);
        },
    );
}

#[test]
fn a_line_of_a_hundred_megabytes_that_answers_nothing_is_passed_over() {
    alone("sizes::a_line_of_a_hundred_megabytes_that_answers_nothing_is_passed_over", &[], async {
        let client =
            client().max_message_bytes(10_000).connect_stdio(program("serves")).await.unwrap();
        assert_eq!(call(&client, "no end of a line").await.unwrap(), "fine");
        assert_peak_below(100);
    });
}
