import CSQLCipher
import StoreCrypto
import StorePlatform

/// The pointer to a connection, as the C functions of SQLite take it.
public typealias SQLiteConnection = OpaquePointer
/// The pointer to a compiled statement, as the C functions of SQLite take it.
public typealias SQLiteStatement = OpaquePointer

/// The SQLCipher library with which this process runs.
///
/// The version at build time proves nothing: another SQLite in the process can replace the symbols, and version 3
/// returns OK for pragmas that it ignores. So the first opening queries the library itself.
package enum SQLiteLibrary {
    /// Version of SQLite, as in `3.46.1`.
    package static var sqliteVersion: String { String(cString: sqlite3_libversion()) }

    /// Version and edition of SQLCipher, as in `4.6.1 community`; nil when the library has no codec.
    package static var cipherVersion: String? {
        if case .success(let version) = verdict { version } else { nil }
    }

    /// Whether a text ends with a whole statement: a trigger ends with its END.
    static func isComplete(_ sql: String) -> Bool { sqlite3_complete(sql) == 1 }

    /// SQLite's own message for a code.
    static func message(of code: ResultCode) -> String { String(cString: sqlite3_errstr(code.rawValue)) }

    /// Throws `StoreError.unsupportedLibrary` unless the library is SQLCipher 4 or later, and libcrypto has every
    /// algorithm that it and stores need. Checked once in a process.
    package static func requireCipher() throws(StoreError) {
        try requireAlgorithms()
        _ = try verdict.get()
    }

    /// Throws `StoreError.unsupportedLibrary` unless libcrypto has every algorithm that stores need.
    package static func requireAlgorithms() throws(StoreError) {
        guard let missing = CryptoLibrary.missingAlgorithm else { return }
        let reason =
            CryptoLibrary.isLimitedToFIPS
            ? "its configuration limits it to the algorithms of FIPS 140 (fips=yes)"
            : "its configuration does not activate the default provider"
        throw StoreError(
            .unsupportedLibrary, what: "The OpenSSL library of this process cannot be used for stores.",
            why: "It does not offer \(missing): \(reason).",
            remedy: "Activate the default provider in the openssl.cnf that this process reads (see OPENSSL_CONF), "
                + "without fips=yes. Or set OPENSSL_CONF=/dev/null for this program alone. Nothing was changed.")
    }

    private static let verdict = examine()

    private static func examine() -> Result<String, StoreError> {
        _ = CryptoLibrary.livesUntilTheEnd
        // Without its algorithms SQLCipher ends the process, or reports an error of memory.
        do throws(StoreError) { try requireAlgorithms() } catch { return .failure(error) }
        guard sqlite3_compileoption_used("HAS_CODEC") == 1 else {
            return .failure(unsupported(found: "SQLite \(sqliteVersion) without encryption"))
        }
        var memory: OpaquePointer?
        defer { sqlite3_close(memory) }
        guard sqlite3_open(":memory:", &memory) == SQLITE_OK, let memory else {
            return .failure(unsupported(found: "a library that cannot open a database in memory"))
        }
        let version = firstText(of: "PRAGMA cipher_version", on: memory) ?? ""
        guard let major = version.split(separator: ".").first.flatMap({ Int($0) }), major >= 4 else {
            return .failure(unsupported(found: version.isEmpty ? "no SQLCipher" : "SQLCipher \(version)"))
        }
        // The first key resets the log level, so a temporary database is keyed before it is lowered.
        _ = sqlite3_key_v2(memory, "main", "none", 4)
        _ = firstText(of: "PRAGMA cipher_log_level = NONE", on: memory)
        return .success(version)
    }

    private static func firstText(of sql: String, on connection: OpaquePointer) -> String? {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK,
            sqlite3_step(statement) == SQLITE_ROW,
            let text = sqlite3_column_text(statement, 0)
        else { return nil }
        return String(cString: text)
    }

    static func unsupported(found: String) -> StoreError {
        StoreError(
            .unsupportedLibrary,
            what: "The SQLite library of this process cannot keep a store encrypted.",
            why: "Needed is SQLCipher 4 or later with its codec; found is \(found).",
            remedy: "Install SQLCipher 4 (Debian 13 and later: apt install libsqlcipher-dev; elsewhere: make setup), "
                + "and link no other SQLite into the same process."
        )
    }
}

extension Database {
    /// The version of the linked SQLite as a number, as in 3046001 for 3.46.1.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/libversion.html>
    public static var sqliteLibVersionNumber: CInt { sqlite3_libversion_number() }
}
