enum CipherStorePlaceholder {}
