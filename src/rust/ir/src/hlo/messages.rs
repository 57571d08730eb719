//! Messages of protocol buffers as tables, as their definitions are.

/// Messages of protocol buffers. Each field has its type in Rust, its number, and its type in the definition.
#[macro_export]
macro_rules! messages {
    ($($(#[$about:meta])* struct $name:ident {
        $($(#[$note:meta])* $field:ident: $kind:ty = $number:tt $($word:ident $(= $parts:tt)?)+,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name {
            $($(#[$note])* #[prost($($word $(= $parts)?,)+ tag = $number)] pub $field: $kind,)*
        }
    )*};
}
