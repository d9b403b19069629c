enum CipherDatabasePlaceholder {}
