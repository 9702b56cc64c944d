//! Tests that the session suite detects faults. A correct storage must pass, and a broken storage must fail in the
//! matching part of the suite.

mod damage;
mod killed;
mod mutant;

use std::future::Future;

use mutant::{CORRECT, Mutant};
use neuron_conformance::check_session_storage;
use neuron_conformance::session::{self, Load};

/// Checks that a part of the suite panics with a message that contains `says`.
async fn caught(part: impl Future<Output = ()> + Send + 'static, says: &str) {
    let panic = match tokio::spawn(part).await {
        Ok(()) => panic!("nothing was caught"),
        Err(error) => error.into_panic(),
    };
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.starts_with("the session storage does not conform: "), "{text}");
    assert!(text.contains(says), "something else was caught: {text}");
}

/// Generates tests in which the suite must detect a broken storage. Each line of the input has four items:
/// - The name of the test.
/// - The mutation that breaks the storage.
/// - The part of the suite that must fail.
/// - A substring of the panic message.
macro_rules! caught {
    ($($name:ident: $mutation:ident by $part:ident: $says:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let part = async { parts::$part(&Mutant::new(stringify!($mutation))).await };
            caught(part, $says).await;
        }
    )*};
}

/// The parts of the suite, with `load` at its default size, so that all parts have the same signature.
mod parts {
    pub(crate) use neuron_conformance::session::*;

    pub(crate) async fn load(storage: &super::Mutant) {
        let _ = neuron_conformance::session::load(storage, Load::default()).await;
    }
}

caught! {
    round_trips_catches_truncated_nanoseconds: CutsTimes by round_trips: "created_at";
    round_trips_catches_sorted_keys: SortsKeys by round_trips: "every kind of block: the bytes of message 3";
    round_trips_catches_texts_cut_at_nul: CutsAtNul by round_trips: "every kind of block: message";
    round_trips_catches_rounded_floats: RoundsFloats by round_trips: "every kind of block: message 3";
    round_trips_catches_a_lost_state: ForgetsState by round_trips: "the state";
    round_trips_catches_a_lost_last_message: LosesLastMessage by round_trips: "the number of messages";
    round_trips_catches_a_load_that_changes_the_session: LoadingChanges by round_trips: "what is listed";
    sizes_catches_unreadable_nested_arguments: CannotReadDeep by sizes: "nested 127 deep: failed";
    missing_catches_an_empty_session: MissingIsEmpty by missing: "never there: gave";
    missing_catches_a_delete_that_succeeds: DeletesNothing by missing: "never there: gave";
    missing_catches_another_error: MissingIsOther by missing: "not with NotFound";
    missing_catches_a_listed_deleted_session: ListsDeleted by missing: "what is listed";
    rewriting_catches_kept_old_messages: KeepsTheRest by rewriting: "longer, and back: the number of messages";
    rewriting_catches_unsaved_changes: SavesNewMessages by rewriting: "without its first message, and back: message 0";
    rewriting_catches_an_ignored_older_time: NewestWins by rewriting: "with an older time";
    ids_catches_accepted_invalid_ids: TakesBadIds by ids: ": gave () and must fail";
    ids_catches_not_found_for_invalid_ids: BadIdIsMissing by ids: ": failed with NotFound";
    ids_catches_case_folding: FoldsIds by ids: "\"chat\" and \"CHAT\"";
    ids_catches_truncated_ids: CutsIds by ids: "what is listed";
    listing_catches_unordered_lists: ListsUnordered by listing: "what is listed";
    listing_catches_dictionary_order: ListsByLanguage by listing: "what is listed";
    listing_catches_wrong_counts: CountsOne by listing: "what is listed";
    dropping_catches_a_torn_save: TearsSaves by dropping: "a save dropped after";
    dropping_catches_a_late_save: SavesLater by dropping: "then saved again";
    writers_catches_torn_sessions: TearsSaves by writers: "writers of one session: ";
    writers_catches_saves_that_fail_when_busy: FailsWhenBusy by writers: "failed: ";
    creating_catches_a_create_that_overwrites: CreateOverwrites by creating: "an id that is taken: gave";
    creating_catches_a_race_of_two_creates: CreateRaces by creating: "at once: the number of creators";
    creating_catches_an_update_that_creates: UpdateCreates by creating: "an id that was deleted: gave";
    creating_catches_a_load_that_changes_the_revision: ReadingRevises by creating: "the revision";
    updating_catches_an_ignored_revision: UpdateIgnores by updating: "is 1 older: gave";
    updating_catches_a_write_despite_a_conflict: ConflictWrites by updating: "older: ";
    updating_catches_another_error_for_a_conflict: ConflictIsOther by updating: "not with Conflict";
    updating_catches_a_save_that_keeps_the_revision: SaveKeepsRevision by updating: "after a save: gave";
    updating_catches_revisions_shared_by_sessions: CountsFromOne by updating: "the revision of another session: gave";
    appending_catches_an_ignored_revision: AppendIgnores by appending: "an old revision: gave";
    appending_catches_a_dropped_state: AppendDropsState by appending: "the state";
    appending_catches_messages_added_first: AppendsFirst by appending: "messages of every kind: message 0";
    appending_catches_replaced_messages: AppendReplaces by appending: "the number of messages";
    appending_catches_an_unchanged_time: AppendKeepsTime by appending: "updated_at";
    appending_catches_a_skipped_empty_append: AppendSkips by appending: "no message: append gave";
    revisions_catches_reuse_after_a_delete: BeginsAgain by revisions: "there was before";
    revisions_catches_content_hashes: HashesContent by revisions: "there was before";
    versioned_ids_catches_accepted_invalid_ids: VersionedTakesBadIds by versioned_ids: "gave";
    versioned_dropping_catches_a_torn_update: TearsUpdates by versioned_dropping: "an update dropped";
    versioned_dropping_catches_a_torn_append: TearsAppends by versioned_dropping: "an append dropped";
    load_catches_lost_updates: UpdateRaces by load: "what task";
    load_catches_lost_appends: AppendRaces by load: "what task";
    load_catches_a_state_without_its_messages: TearsAppends by load: "the events that the state counts";
    load_catches_repeated_appends: AppendsTwice by load: "";
}

/// Checks that the storage without a mutation passes all parts.
#[tokio::test]
async fn correct_storage_passes() {
    let storage = Mutant::new(CORRECT);
    let suite = check_session_storage(&storage);
    // A multi-threaded runtime needs a `Send` future.
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    is_send(suite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn correct_storage_passes_on_several_threads() {
    check_session_storage(&Mutant::new(CORRECT)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_returns_the_number_of_writes() {
    let storage = Mutant::new(CORRECT);
    let load = Load { tasks: 5, sessions: 2, writes: 9, time: None };
    let tally = session::load(&storage, load).await;
    assert_eq!(tally.writes, 45);
}
