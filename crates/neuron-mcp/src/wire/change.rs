//! Conversion of change notifications and subscriptions between the types of this crate and the types of the SDK
//! `rmcp`.

use std::collections::BTreeSet;

use rmcp::model::{
    PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification,
    ResourceUpdatedNotificationParam, ServerNotification, SubscriptionFilter,
    ToolListChangedNotification,
};

use crate::server::notifier::Change;

/// Creates the notification that tells a client about a change.
pub(crate) fn notification(change: Change) -> ServerNotification {
    match change {
        Change::Tools => {
            ServerNotification::ToolListChangedNotification(ToolListChangedNotification::default())
        }
        Change::Resources => ServerNotification::ResourceListChangedNotification(
            ResourceListChangedNotification::default(),
        ),
        Change::Prompts => ServerNotification::PromptListChangedNotification(
            PromptListChangedNotification::default(),
        ),
        Change::Resource(uri) => ServerNotification::ResourceUpdatedNotification(
            ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(uri)),
        ),
    }
}

/// Returns the changes that a client subscribed to with `subscriptions/listen` (MCP since 2026-07-28).
pub(crate) fn wanted(filter: &SubscriptionFilter) -> BTreeSet<Change> {
    let lists = [
        (filter.tools_list_changed, Change::Tools),
        (filter.resources_list_changed, Change::Resources),
        (filter.prompts_list_changed, Change::Prompts),
    ];
    let lists = lists.into_iter().filter(|(wanted, _)| *wanted == Some(true));
    let resources = filter.resource_subscriptions.iter().flatten().cloned().map(Change::Resource);
    lists.map(|(_, change)| change).chain(resources).collect()
}
