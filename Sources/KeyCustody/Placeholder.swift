enum KeyCustodyPlaceholder {}
