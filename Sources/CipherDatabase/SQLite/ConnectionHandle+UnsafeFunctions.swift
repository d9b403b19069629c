import CSQLCipher

extension ConnectionHandle {
    /// Ends what a file that another person has made could call, and must not.
    func endUnsafeFunctions() {
        removeExport()
        if (3_044_000..<3_049_001).contains(sqlite3_libversion_number()) { replaceConcatWS() }
    }

    /// `sqlcipher_export` runs its second argument as a part of SQL, with `writable_schema` on and without DEFENSIVE, and
    /// SQLite lets a CHECK constraint of any file call it. ATTACH, which it is made for, is refused.
    private func removeExport() {
        // SQLCipher registers it for UTF-16 with the highest byte first.
        for encoding in [SQLITE_UTF8, SQLITE_UTF16LE, SQLITE_UTF16BE] {
            sqlite3_create_function_v2(pointer, "sqlcipher_export", -1, encoding, nil, nil, nil, nil, nil)
        }
    }

    /// SQLite 3.44 to 3.49.0 computes the length of the separators in 32 bits (CVE-2025-29087), and an index of a file that
    /// another person has made can call the function. The own one has the same results: it skips NULL and empty texts. No
    /// SQLCipher has a version from 3.47 to 3.49.0, some of which keep empty texts.
    private func replaceConcatWS() {
        let flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS
        sqlite3_create_function_v2(
            pointer, "concat_ws", -1, flags, nil, { joinTexts($0, $1, $2) }, nil, nil, nil)
    }
}

/// `concat_ws(separator, ...)`.
private func joinTexts(_ context: OpaquePointer?, _ count: CInt, _ values: UnsafeMutablePointer<OpaquePointer?>?) {
    guard let values, count >= 2 else {
        return sqlite3_result_error(context, "wrong number of arguments to function concat_ws()", -1)
    }
    guard let separator = sqlite3_value_text(values[0]) else { return sqlite3_result_null(context) }
    let separatorBytes = Int(sqlite3_value_bytes(values[0]))
    let limit = Int(sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, -1))
    var bytes = 0
    // The conversion to UTF-8 comes first. No more than 127 arguments of 2 GiB: the sum has 64 bits.
    for index in 1..<Int(count) where sqlite3_value_text(values[index]) != nil {
        let length = Int(sqlite3_value_bytes(values[index]))
        if length > 0 { bytes += length + (bytes > 0 ? separatorBytes : 0) }
    }
    guard bytes <= limit else { return sqlite3_result_error_toobig(context) }
    guard let result = sqlite3_malloc64(UInt64(bytes) + 1) else { return sqlite3_result_error_nomem(context) }
    var end = 0
    for index in 1..<Int(count) {
        guard let text = sqlite3_value_text(values[index]) else { continue }
        let length = Int(sqlite3_value_bytes(values[index]))
        if length == 0 { continue }
        if end > 0 {
            (result + end).copyMemory(from: separator, byteCount: separatorBytes)
            end += separatorBytes
        }
        (result + end).copyMemory(from: text, byteCount: length)
        end += length
    }
    sqlite3_result_text64(
        context, result.assumingMemoryBound(to: CChar.self), UInt64(bytes), sqlite3_free, UInt8(SQLITE_UTF8))
}
