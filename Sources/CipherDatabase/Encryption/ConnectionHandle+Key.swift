import KeyCustody
import StoreCrypto

extension ConnectionHandle {
    /// Sets the key of its pages in SQLCipher as a raw keyspec, and after it the cipher settings.
    ///
    /// The keyspec `x'<64 hex digits><32 hex digits>'` needs no derivation and overrides any salt that is set
    /// otherwise.
    /// - SeeAlso: <https://www.zetetic.net/sqlcipher/sqlcipher-api/#key>
    func setRawKey(_ key: PageKey) -> ResultCode {
        let code = key.keyspec.withBytes { setKey($0) }
        guard code == .SQLITE_OK else { return code }
        for (setting, value) in key.settings.pragmas {
            let code = runPragma("PRAGMA \(setting.rawValue) = \(value)")
            guard code == .SQLITE_OK else { return code }
        }
        return .SQLITE_OK
    }

    /// Sets a raw key in SQLCipher that has no salt yet: SQLCipher reads the salt from the file, or from a pragma.
    func setRawKey(_ secret: Secret, salt: Salt?) -> ResultCode {
        secret.keyspec(salt: salt).withBytes { setKey($0) }
    }

    /// Runs a pragma of the library to its end.
    func runPragma(_ sql: String) -> ResultCode {
        let (code, compiled, _) = prepare(sql, persistent: false)
        guard code == .SQLITE_OK, let compiled else { return code }
        let statement = StatementHandle(compiled)
        defer { statement.finalize() }
        var step: CInt
        repeat { step = statement.step() } while step == ResultCode.SQLITE_ROW.rawValue
        return step == ResultCode.SQLITE_DONE.rawValue ? .SQLITE_OK : ResultCode(rawValue: step)
    }

    /// The first column of a pragma's first row.
    func pragmaValue(_ sql: String) -> String? { pragmaAnswer(sql).value }

    /// The first column of a pragma's first row, and the code of its statement: an interrupted one has no row either.
    func pragmaAnswer(_ sql: String) -> (code: ResultCode, value: String?) {
        let (code, compiled, _) = prepare(sql, persistent: false)
        guard code == .SQLITE_OK, let compiled else { return (code, nil) }
        let statement = StatementHandle(compiled)
        defer { statement.finalize() }
        let step = ResultCode(rawValue: statement.step())
        return (step, step == .SQLITE_ROW ? statement.stringOrNil(at: 0) : nil)
    }
}

extension CipherSettings {
    /// The pragmas that differ from SQLCipher 4's defaults. A raw key does not depend on the rounds of the KDF. They
    /// are set so that `PRAGMA kdf_iter` returns those of the passphrase.
    var pragmas: [(CipherPragma.Setting, String)] {
        var pragmas: [(CipherPragma.Setting, String)] = []
        if pageBytes != CipherSettings.sqlCipher4.pageBytes { pragmas.append((.pageBytes, String(pageBytes))) }
        if hmacHash != .sha512 { pragmas.append((.hmacHash, "HMAC_\(hmacHash.rawValue.uppercased())")) }
        if kdfHash != .sha512 { pragmas.append((.kdfHash, "PBKDF2_HMAC_\(kdfHash.rawValue.uppercased())")) }
        if kdfRounds != CipherSettings.sqlCipher4.kdfRounds { pragmas.append((.kdfRounds, String(kdfRounds))) }
        if plaintextHeaderBytes != 0 { pragmas.append((.plaintextHeader, String(plaintextHeaderBytes))) }
        return pragmas
    }
}
