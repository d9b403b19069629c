import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform
import StoreSharing

/// A database file and what it is: a store, a file of SQLCipher without a sidecar, or plain SQLite. It is not opened.
package struct ExaminedFile: Sendable {
    package enum Form: Sendable {
        case store(AuthenticatedSidecar)
        /// A file of SQLCipher as programs without this library make it.
        case sqlCipher(PageKey)
        case plain
    }

    /// The database file, of a backup the one in its folder.
    package let path: String
    package let form: Form
    package let file: RawFile
    /// The properties that the beginning of the file shows without a key.
    let verdict: HeaderVerdict

    /// The key of the pages, with the settings that the file has; nil for plain SQLite.
    package let pageKey: PageKey?

    /// - Throws: `StoreError` `noSuchStore` where no regular file is, `rotationPending`, `wrongKey`, and the errors of
    ///   its sidecar; ``ToolError`` `sparse`; `SystemError`.
    package init(_ path: String, _ key: UnlockedKey, onNotice: (String) -> Void) throws {
        let path = BackupBundle.database(meantBy: path)
        try Self.requireSuitable(path)
        self.path = path
        let file = try RawFile(path)
        self.file = file
        let sidecar = SidecarFiles(databasePath: StorePaths(path).database)
        let first = try file.bytes(at: 0, count: PageLayout.largestPageBytes)
        let verdict = DatabaseHeader.examine(first, fileBytes: try file.byteCount, settings: nil)
        self.verdict = verdict
        if sidecar.read().areAbsent {
            if case .plainSQLite = verdict {
                (form, pageKey) = (.plain, nil)
                return
            }
            if case .opaque(let traits) = verdict, traits.mayBeStandardSQLCipher {
                let key = try Self.probe(path, first, key)
                (form, pageKey) = (.sqlCipher(key), key)
                return
            }
        }
        let choice = try StoreOpening.sidecar(path, key, onNotice: onNotice)
        switch choice.sidecar.state {
        case .ready:
            form = .store(choice)
            pageKey = try Self.saltInHeader(first, choice.pageKey) ?? choice.pageKey
        case .creating: throw StoreOpening.noSuchStore(path)
        case .rotating, .switching: throw Self.rotating(path)
        }
    }

    /// Refuses what is no regular file, and a file of holes.
    ///
    /// - Throws: `StoreError` `noSuchStore`, ``ToolError`` `sparse`.
    package static func requireSuitable(_ path: String) throws {
        guard let status = try Files.status(of: path), status.kind == .regular else {
            throw StoreOpening.noSuchStore(path)
        }
        guard status.isMostlyHoles else { return }
        throw ToolError(
            .sparse, what: "\"\(path)\" is not examined.",
            why:
                "It has \(status.byteCount) bytes, of which only \(status.allocatedBytes) are on the disk: the rest are "
                + "holes, which no store has.",
            remedy: "Restore the store from a backup, or copy the part of the file that is not empty.")
    }

    /// The key of a file that has its salt in the header, though its sidecar says otherwise; nil when it does not.
    private static func saltInHeader(_ first: [UInt8], _ key: PageKey) throws -> PageKey? {
        guard key.settings.plaintextHeaderBytes > 0, key.isSaltInFront(of: first) else { return nil }
        var settings = key.settings
        settings.plaintextHeaderBytes = 0
        let other = PageKey(key.dataKey, salt: key.salt, settings: settings)
        var codec = try PageCodec(keys: PageKeys(other))
        return first.prefix(settings.pageBytes).withUnsafeBytes { codec.verify($0, number: 1) } ? other : nil
    }

    private static func probe(_ path: String, _ first: [UInt8], _ key: UnlockedKey) throws -> PageKey {
        let salt = try Salt(bytes: Array(first.prefix(Salt.byteCount)))
        if let found = try CipherProbe(path, salt: salt, key: key).anyKey() { return found }
        throw StoreError(
            .wrongKey, what: "The key does not open \"\(path)\".",
            why: "The authentication code of page 1 fits it under the settings of no version of SQLCipher from 2 to 4.",
            remedy: "Check the key. A store without its sidecar needs the salt as well: put the sidecar back.")
    }

    static func rotating(_ path: String) -> StoreError {
        StoreError(
            .rotationPending, what: "\"\(path)\" is being given another key.",
            why: "A rotation is running or was interrupted, so its pages are about to change their key.",
            remedy:
                "Let it end, then run this again. `cipherctl rotate --status` says whether it was interrupted; then "
                + "complete or undo it.")
    }

    // MARK: After an examination

    /// Refuses findings about a file that was given another key or was replaced while it was examined: they belong to
    /// no store.
    ///
    /// - Throws: `StoreError` `keyRotated`, `storeMoved`, `rotationPending`, `saltMissing`; `SystemError`.
    package func requireCurrent() throws {
        guard case .store(let choice) = form else {
            guard try file.isInPlace else { throw Self.moved(path) }
            return
        }
        if SidecarFiles(databasePath: StorePaths(path).database).read().areAbsent, try file.isInPlace {
            throw StoreError(
                .saltMissing, what: "The sidecar of \"\(path)\" was removed, with its second copy.",
                why: "That happened during the check.",
                remedy: "Put one of them back: without its salt nothing opens the store. Then run the check again.")
        }
        try KeyChange(of: path).requireNone(since: choice, file)
    }

    /// The findings about the two copies of the sidecar of a store, without those that a moment explains.
    package func lastingNotes(_ choice: AuthenticatedSidecar) -> [SidecarNote] {
        KeyChange(of: path).lastingNotes(choice)
    }

    /// The error for a file that another one has replaced during a check.
    static func moved(_ path: String) -> StoreError {
        StoreError(
            .storeMoved, what: "\"\(path)\" was replaced by another file.", why: "That happened during the check.",
            remedy: "Run the check again.")
    }
}
