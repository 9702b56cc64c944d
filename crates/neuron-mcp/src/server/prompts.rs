//! The [`McpPrompts`] trait and [`McpPromptSet`].

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use neuron_types::ToolError;

use super::cursor;
use super::peer::McpPeer;
use crate::erased::erased;
use crate::{CompletionQuery, McpCompletion, McpPrompt, McpPromptResult, PaginatedList};

/// The prompts of a server. [`McpPromptSet`] is a ready-made implementation.
///
/// All errors are sent to the client:
///
/// - Return [`ToolError::InvalidInput`] for an invalid request, for example an invalid cursor or argument.
/// - Return [`ToolError::NotFound`] for an unknown prompt.
/// - All other errors are reported as internal errors of the server.
///
/// # Example
///
/// ```
/// use std::collections::HashMap;
///
/// use neuron_mcp::{McpPeer, McpPrompt, McpPromptMessage, McpPromptResult, McpPrompts, PaginatedList};
/// use neuron_types::ToolError;
///
/// struct Greeting;
///
/// impl McpPrompts for Greeting {
///     async fn list(
///         &self,
///         _cursor: Option<&str>,
///         _peer: &McpPeer,
///     ) -> Result<PaginatedList<McpPrompt>, ToolError> {
///         Ok(PaginatedList::complete(vec![McpPrompt::new("greet")]))
///     }
///
///     async fn get(
///         &self,
///         name: &str,
///         _arguments: &HashMap<String, String>,
///         _peer: &McpPeer,
///     ) -> Result<McpPromptResult, ToolError> {
///         if name != "greet" {
///             return Err(ToolError::NotFound(name.to_owned()));
///         }
///         let messages = vec![McpPromptMessage::user("Greet me.")];
///         Ok(McpPromptResult { messages, ..Default::default() })
///     }
/// }
/// ```
pub trait McpPrompts: Send + Sync {
    /// Returns one page of the prompts. `cursor` is the `next_cursor` of the previous page, and `None` for the first
    /// page.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::InvalidInput`] if the cursor is invalid.
    fn list(
        &self,
        cursor: Option<&str>,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<PaginatedList<McpPrompt>, ToolError>> + Send;

    /// Returns the messages of a prompt, with its arguments filled in. The implementation may send requests to the
    /// client with [`McpPeer::ask`].
    ///
    /// # Errors
    ///
    /// - [`ToolError::NotFound`] if the prompt is unknown.
    /// - [`ToolError::InvalidInput`] if an argument is missing or invalid.
    fn get(
        &self,
        name: &str,
        arguments: &HashMap<String, String>,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<McpPromptResult, ToolError>> + Send;

    /// Returns completions for the value of an argument. The default implementation returns no completions.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::InvalidInput`] if the prompt is unknown.
    fn complete(
        &self,
        _query: &CompletionQuery,
        _peer: &McpPeer,
    ) -> impl Future<Output = Result<McpCompletion, ToolError>> + Send {
        async { Ok(McpCompletion::default()) }
    }
}

erased! {
    /// Object-safe form of [`McpPrompts`], whose methods return boxed futures.
    pub(crate) trait DynPrompts<'a>: McpPrompts {
        async fn list(cursor: Option<&'a str>, peer: &'a McpPeer)
            -> Result<PaginatedList<McpPrompt>, ToolError>;
        async fn get(name: &'a str, arguments: &'a HashMap<String, String>, peer: &'a McpPeer)
            -> Result<McpPromptResult, ToolError>;
        async fn complete(query: &'a CompletionQuery, peer: &'a McpPeer)
            -> Result<McpCompletion, ToolError>;
    }
}

/// A client's request for a prompt, as passed to the function of [`McpPromptSet::with_prompt`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PromptRequest {
    /// Values of the arguments by name. All required arguments are present.
    pub arguments: HashMap<String, String>,
    /// The calling client.
    pub peer: McpPeer,
}

/// A user's function that returns the messages of a prompt.
type Fill = Arc<
    dyn Fn(PromptRequest) -> BoxFuture<'static, Result<McpPromptResult, ToolError>> + Send + Sync,
>;

/// A user's function that returns completions.
type Complete = Arc<dyn Fn(&CompletionQuery) -> Vec<String> + Send + Sync>;

/// A set of prompts built from functions.
///
/// # Example
///
/// ```
/// use neuron_mcp::{McpPrompt, McpPromptArgument, McpPromptMessage, McpPromptResult, McpPromptSet};
///
/// let topic = McpPromptArgument { name: "topic".into(), required: true, ..Default::default() };
/// let prompt = McpPrompt { arguments: vec![topic], ..McpPrompt::new("explain") };
/// let prompts = McpPromptSet::new().with_prompt(prompt, |request| async move {
///     let text = format!("Explain {}.", request.arguments["topic"]);
///     Ok(McpPromptResult { messages: vec![McpPromptMessage::user(text)], ..Default::default() })
/// });
/// ```
#[derive(Clone)]
pub struct McpPromptSet {
    /// Definitions of the prompts, in the order in which they were added.
    prompts: Vec<McpPrompt>,
    /// Functions that return the messages, by prompt name.
    fills: HashMap<String, Fill>,
    /// Functions that return completions, by prompt name and argument name.
    completions: HashMap<(String, String), Complete>,
    /// Maximum number of prompts on one page of the list.
    page_size: usize,
}

impl Default for McpPromptSet {
    fn default() -> Self {
        Self::new()
    }
}

impl McpPromptSet {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self {
            prompts: Vec::new(),
            fills: HashMap::new(),
            completions: HashMap::new(),
            page_size: cursor::PAGE_SIZE,
        }
    }

    /// Adds a prompt whose messages are returned by a function. Replaces a prompt with the same name.
    ///
    /// The function is called only if the client sent all required arguments. If a required argument is missing, the
    /// client receives an error.
    #[must_use]
    pub fn with_prompt<F>(
        mut self,
        prompt: McpPrompt,
        fill: impl Fn(PromptRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<McpPromptResult, ToolError>> + Send + 'static,
    {
        self.prompts.retain(|other| other.name != prompt.name);
        let fill: Fill = Arc::new(move |request| Box::pin(fill(request)));
        self.fills.insert(prompt.name.clone(), fill);
        self.prompts.push(prompt);
        self
    }

    /// Sets the function that completes an argument of a prompt. The function receives the text that the user has typed
    /// so far. It returns matching values, with the best match first.
    #[must_use]
    pub fn with_completion(
        mut self,
        prompt: impl Into<String>,
        argument: impl Into<String>,
        complete: impl Fn(&CompletionQuery) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.completions.insert((prompt.into(), argument.into()), Arc::new(complete));
        self
    }

    /// Sets the maximum number of prompts on one page of the list, at least 1. Defaults to 1000.
    #[must_use]
    pub fn with_page_size(mut self, items: usize) -> Self {
        self.page_size = items.max(1);
        self
    }
}

impl McpPrompts for McpPromptSet {
    async fn list(
        &self,
        cursor: Option<&str>,
        _peer: &McpPeer,
    ) -> Result<PaginatedList<McpPrompt>, ToolError> {
        cursor::list(&self.prompts, |prompt| &prompt.name, cursor, self.page_size)
    }

    async fn get(
        &self,
        name: &str,
        arguments: &HashMap<String, String>,
        peer: &McpPeer,
    ) -> Result<McpPromptResult, ToolError> {
        let prompt = self.prompts.iter().find(|prompt| prompt.name == name);
        let (Some(prompt), Some(fill)) = (prompt, self.fills.get(name)) else {
            return Err(ToolError::NotFound(name.to_owned()));
        };
        let mut required = prompt.arguments.iter().filter(|argument| argument.required);
        if let Some(missing) = required.find(|argument| !arguments.contains_key(&argument.name)) {
            let text = format!("the prompt `{name}` requires the argument `{}`", missing.name);
            return Err(ToolError::InvalidInput(text));
        }
        fill(PromptRequest { arguments: arguments.clone(), peer: peer.clone() }).await
    }

    async fn complete(
        &self,
        query: &CompletionQuery,
        _peer: &McpPeer,
    ) -> Result<McpCompletion, ToolError> {
        let crate::CompletionTarget::Prompt(name) = &query.target else {
            return Ok(McpCompletion::default());
        };
        if !self.fills.contains_key(name) {
            return Err(ToolError::InvalidInput(format!("unknown prompt: {name}")));
        }
        // An argument without a completion function has no completions. This is not an error.
        let complete = self.completions.get(&(name.clone(), query.argument.clone()));
        let values = complete.map(|complete| complete(query)).unwrap_or_default();
        Ok(McpCompletion { total: u32::try_from(values.len()).ok(), values, has_more: None })
    }
}

impl fmt::Debug for McpPromptSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpPromptSet").field("prompts", &self.prompts).finish_non_exhaustive()
    }
}
