//! Twins of traits, whose futures are boxed, so that a value of any type can be kept behind a pointer.

/// Defines the object-safe twin of a trait, with its async methods first and then its other methods, under the same
/// names.
macro_rules! erased {
    (
        $(#[$meta:meta])*
        $visibility:vis trait $Erased:ident<$life:lifetime>: $Trait:ident {
            $(async fn $method:ident($($argument:ident: $Argument:ty),*) -> $Output:ty;)*
            $(fn $plain:ident($($given:ident: $Given:ty),*) -> $Returned:ty;)*
        }
    ) => {
        $(#[$meta])*
        $visibility trait $Erased: Send + Sync {
            $(fn $method<$life>(
                &$life self, $($argument: $Argument),*
            ) -> futures_util::future::BoxFuture<$life, $Output>;)*
            $(fn $plain(&self, $($given: $Given),*) -> $Returned;)*
        }

        impl<T: $Trait> $Erased for T {
            $(fn $method<$life>(
                &$life self, $($argument: $Argument),*
            ) -> futures_util::future::BoxFuture<$life, $Output> {
                Box::pin($Trait::$method(self, $($argument),*))
            })*
            $(fn $plain(&self, $($given: $Given),*) -> $Returned {
                $Trait::$plain(self, $($given),*)
            })*
        }
    };
}

pub(crate) use erased;
