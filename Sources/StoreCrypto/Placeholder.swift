enum StoreCryptoPlaceholder {}
