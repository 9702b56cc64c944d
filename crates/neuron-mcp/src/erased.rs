//! Object-safe versions of traits with async methods.

/// Defines the object-safe version of a trait, with methods of the same names. Async methods return boxed futures.
///
/// In the macro call, the async methods must come before the other methods.
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
