//! Requests to the ingress port and the admin port of a Restate server ([`Server`]).

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request};
use neuron_durable::{RunOutcome, RunsError};
use neuron_types::stored_json;
use restate_sdk::ingress::RequestExecutor;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::rows::{Entry, Row, Run};
use crate::batch::{AGENT, TOOL};
use crate::continuation::HANDLER as RESUME;
use crate::definition::RUN;
use crate::plain_http::PlainHttp;
use crate::register;

/// Columns of an invocation that a [`Row`] needs.
const COLUMNS: &str = "id, target_handler_name AS handler, status, completion_result, completion_failure, \
                       last_failure, last_failure_error_code, created_at, modified_at";

/// HTTP statuses of the server's response if it does not have the requested outcome yet, or does not keep it any more.
const NO_OUTCOME: [u16; 2] = [404, 470];

/// The addresses of a Restate server, and the HTTP client for its requests.
#[derive(Clone)]
pub(super) struct Server<E> {
    service: String,
    ingress: String,
    admin: String,
    client: E,
}

impl Server<PlainHttp> {
    pub(super) fn new(service: String, ingress: String, admin: String) -> Self {
        let trimmed = |url: String| url.trim_end_matches('/').to_owned();
        Self { service, ingress: trimmed(ingress), admin: trimmed(admin), client: PlainHttp }
    }

    pub(super) fn with_client<E>(self, client: E) -> Server<E> {
        let Self { service, ingress, admin, .. } = self;
        Server { service, ingress, admin, client }
    }
}

impl<E: RequestExecutor> Server<E> {
    /// Returns the runs of the service, the oldest first. If `id` is not `None`, returns only the run with this id.
    ///
    /// Also removes leftover entries from the [register](crate::register), which stores the wait and the end of each
    /// run. A killed run leaves its entry there. The entry is removed once the server has deleted the run.
    pub(super) async fn runs(&self, id: Option<&str>) -> Result<Vec<Run>, RunsError> {
        let service = quoted(&self.service);
        let (mut of_run, mut of_key) = (String::new(), String::new());
        if let Some(id) = id {
            // No other text is a valid id, and the id becomes part of an SQL text.
            if !id.starts_with("inv_") || !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            {
                return Ok(Vec::new());
            }
            of_run = format!("AND id = '{id}'");
            of_key = format!("AND service_key = '{id}'");
        }
        // The register is read before the invocations. So a run with an entry and without an invocation is gone, and
        // not new.
        let entries = format!(
            "SELECT service_key, key, value_utf8 FROM state WHERE service_name = {} {of_key}",
            quoted(&register::name(&self.service))
        );
        let mut entries = self.query::<StateRow>(&entries).await?.into_iter().fold(
            HashMap::<_, Entry>::new(),
            |mut entries, row| {
                let entry = entries.entry(row.service_key).or_default();
                entry.read(&row.key, row.value_utf8.as_deref());
                entries
            },
        );
        // The query selects the first invocation of each run, the invocations that continue the run, and the
        // invocations of its unfinished tool calls at any depth.
        let is_of = |handlers: &str| {
            format!("target_service_name = {service} AND target_handler_name IN ({handlers})")
        };
        let invocations = format!(
            "WITH RECURSIVE runs AS ( \
             SELECT id AS run, id AS invocation, 0 AS number FROM sys_invocation WHERE {} {of_run} \
             UNION ALL \
             SELECT run, id, CASE WHEN target_handler_name = '{RESUME}' THEN number + 1 ELSE number END \
             FROM sys_invocation JOIN runs ON invoked_by_id = invocation \
             WHERE ({}) OR ({} AND status != 'completed') \
             ) SELECT run, number, {COLUMNS} FROM runs JOIN sys_invocation ON id = invocation \
             ORDER BY number",
            is_of(&format!("'{RUN}'")),
            is_of(&format!("'{RESUME}'")),
            is_of(&format!("'{TOOL}', '{AGENT}'"))
        );
        let mut rows = self.query::<Row>(&invocations).await?;
        self.explain_pauses(&mut rows).await?;
        let runs = Run::all(rows, |id| entries.remove(id).unwrap_or_default());
        for (id, _) in entries.into_iter().filter(|(_, entry)| !entry.is_removed_later()) {
            self.remove_entry(&id).await;
        }
        Ok(runs)
    }

    /// Adds the failure that paused an invocation to the row of each paused invocation. The server stores these
    /// failures only in its table of events.
    async fn explain_pauses(&self, rows: &mut [Row]) -> Result<(), RunsError> {
        let paused: Vec<&mut Row> = rows.iter_mut().filter(|row| row.is_paused()).collect();
        if paused.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = paused.iter().map(|row| quoted(&row.invocation)).collect();
        let events = format!(
            "SELECT id, event_json FROM sys_journal_events \
             WHERE event_type = 'Paused' AND id IN ({}) ORDER BY appended_at DESC",
            ids.join(", ")
        );
        let events = self.query::<EventRow>(&events).await?;
        for row in paused {
            let event = events.iter().find(|event| event.id == row.invocation);
            row.explain_pause(event.map_or("", |event| &event.event_json));
        }
        Ok(())
    }

    /// Removes the register entry of a killed run. Such a run cannot remove its entry itself. An error is only logged.
    async fn remove_entry(&self, id: &str) {
        let url = format!("{}/services/{}/state", self.admin, register::name(&self.service));
        let body = json!({"object_key": id, "new_state": {}}).to_string();
        let removed = self.send(Method::POST, &url, None, Some(body.into())).await;
        if let Err(error) = removed.and_then(Answer::success) {
            tracing::debug!(%error, id, "an entry of the register could not be removed");
        }
    }

    /// Returns the outcome of an ended run. Returns `None` if the server does not keep the outcome.
    ///
    /// # Errors
    ///
    /// The outer error means that the request failed. The inner error means that the outcome cannot be parsed.
    pub(super) async fn outcome(
        &self,
        id: &str,
    ) -> Result<serde_json::Result<Option<RunOutcome>>, RunsError> {
        let url = format!("{}/restate/invocation/{id}/output", self.ingress);
        let answer = self.send(Method::GET, &url, None, None).await?;
        match NO_OUTCOME.contains(&answer.status) {
            true => Ok(Ok(None)),
            false => answer.success().map(|answer| answer.read().map(Some)),
        }
    }

    /// Sends a request to a public handler of the service.
    pub(super) async fn call(
        &self,
        handler: &str,
        idempotency_key: Option<&str>,
        body: &impl Serialize,
    ) -> Result<Answer, RunsError> {
        let url = format!("{}/{}/{handler}", self.ingress, self.service);
        let mut json = Vec::new();
        stored_json::write(&mut json, body).map_err(engine)?;
        self.send(Method::POST, &url, idempotency_key, Some(json.into())).await
    }

    /// Cancels an invocation.
    pub(super) async fn cancel(&self, id: &str) -> Result<Answer, RunsError> {
        let url = format!("{}/invocations/{id}/cancel", self.admin);
        self.send(Method::PATCH, &url, None, None).await
    }

    /// Runs an SQL query on the server's tables.
    async fn query<T: DeserializeOwned>(&self, sql: &str) -> Result<Vec<T>, RunsError> {
        let body = json!({ "query": sql }).to_string();
        let url = format!("{}/query", self.admin);
        let answer = self.send(Method::POST, &url, None, Some(body.into())).await?.success()?;
        answer.read::<Rows<T>>().map(|rows| rows.rows).map_err(engine)
    }

    /// Sends a request, and returns the response. A response with an error status is not an error.
    async fn send(
        &self,
        method: Method,
        url: &str,
        idempotency_key: Option<&str>,
        body: Option<Bytes>,
    ) -> Result<Answer, RunsError> {
        let mut request =
            Request::builder().method(method).uri(url).header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(body.unwrap_or_default()).map_err(engine)?;
        let response = self.client.execute(request).await.map_err(engine)?;
        Ok(Answer { status: response.status().as_u16(), body: response.into_body() })
    }
}

impl<E> fmt::Debug for Server<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("service", &self.service)
            .field("ingress", &self.ingress)
            .field("admin", &self.admin)
            .finish_non_exhaustive()
    }
}

/// The response to an SQL query.
#[derive(Deserialize)]
struct Rows<T> {
    rows: Vec<T>,
}

/// A row of the query for the register's state, which has one value of one run.
#[derive(Deserialize)]
struct StateRow {
    service_key: String,
    key: String,
    /// The value as text. `None` if the bytes are not UTF-8.
    value_utf8: Option<String>,
}

/// A row of the query for events, which has one event of one invocation.
#[derive(Deserialize)]
struct EventRow {
    id: String,
    event_json: String,
}

/// A response of the server.
pub(super) struct Answer {
    pub(super) status: u16,
    body: Bytes,
}

impl Answer {
    /// Returns the response, or an error if its status is not 2xx.
    pub(super) fn success(self) -> Result<Self, RunsError> {
        match self.status {
            200..=299 => Ok(self),
            status => Err(engine(format!("Restate responded {status}: {}", self.message()))),
        }
    }

    /// Returns the error text in the response.
    pub(super) fn message(&self) -> String {
        let body: Option<Value> = serde_json::from_slice(&self.body).ok();
        let message = body.as_ref().and_then(|body| body.get("message")?.as_str());
        message.map_or_else(|| String::from_utf8_lossy(&self.body).into_owned(), str::to_owned)
    }

    /// Parses the body as JSON.
    fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        stored_json::read(&self.body)
    }

    /// Returns a text field of the response. Fails if there is no such field.
    pub(super) fn text(&self, field: &str) -> Result<String, RunsError> {
        let body: Value = self.read().map_err(engine)?;
        let text = body.get(field).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| engine(format!("the response has no `{field}`")))
    }
}

/// Converts an error to [`RunsError::Engine`].
fn engine(error: impl Into<neuron_types::BoxError>) -> RunsError {
    RunsError::Engine(error.into())
}

/// Quotes a text for SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
