import KeyCustody
import StorePlatform

extension Database {
    /// Copies the database into a file that does not exist yet, without free pages.
    ///
    /// - Parameters:
    ///   - key: Where the key of this database came from; the copy gets its key from there too.
    ///   - scheme: How a copy that gets a sidecar keeps its key.
    func copy(into path: String, key: KeyOrigin, scheme: KeyScheme) throws {
        guard try Files.byteCount(path) ?? 0 == 0 else { throw DatabaseError(message: "output file already exists") }
        var configuration = configuration
        configuration.readonly = false
        configuration.keyScheme = scheme
        let copy = try WritingConnection(
            path: path, label: label + ".copy", configuration: configuration,
            keyring: Keyring(path: path, configuration: configuration), key: key, wal: false)
        try copy.sync { db in
            try backup(to: db)
            try db.execute(sql: "VACUUM")
        }
        try copy.close()
    }
}

extension DatabaseQueue {
    /// A copy of a database file in memory. Changes of it leave no trace on disk.
    ///
    /// - Parameters:
    ///   - path: The file; it is opened read-only.
    ///   - configuration: Sets the key of the file, under which the copy is encrypted too. With `readonly` the copy
    ///     cannot be changed.
    /// - Throws: As opening the file does, or ``DatabaseError``.
    public static func inMemoryCopy(
        fromPath path: String, configuration: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        var reading = configuration
        reading.readonly = true
        let source = try DatabaseQueue(path: path, configuration: reading)
        var writing = configuration
        writing.readonly = false
        let copy = DatabaseQueue(configuration: writing)
        try source.backup(to: copy)
        try source.close()
        if configuration.readonly { try copy.inDatabase { try $0.execute(sql: "PRAGMA query_only = 1") } }
        return copy
    }

    /// A copy of a database file that exists only as long as the queue. It is kept in memory: a temporary file would be
    /// one more place on disk that contains the rows.
    ///
    /// - Parameters:
    ///   - path: The file; it is opened read-only.
    ///   - configuration: Sets the key of the file.
    /// - Throws: As opening the file does, or ``DatabaseError``.
    public static func temporaryCopy(
        fromPath path: String, configuration: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        try inMemoryCopy(fromPath: path, configuration: configuration)
    }
}
