import CipherStore
import KeyCustody
import StoreCrypto
import StorePlatform

/// The key of a store, read once and used for several openings: descriptors, commands and users answer only once.
package struct UnlockedKey: Sendable {
    package let secret: Secret
    private let name: String

    /// - Throws: The error of the source.
    package init(_ source: KeySource) throws {
        name = source.description
        secret = try source.read()
    }

    /// A recovery key, in the form in which a program reads it.
    package init(_ recovery: RecoveryKey) throws {
        name = "recovery key"
        secret = .passphrase(try Passphrase(recovery.text())).with(slotKind: .recovery)
    }

    /// A known key, to be used without derivation.
    package init(raw key: DataKey) {
        name = "data key"
        secret = .rawKey(key)
    }

    /// The same key as a source that can be read repeatedly.
    package var source: KeySource { KeySource(giving: secret, name: name) }

    /// The keys of a sidecar that this key opens, or nil when it opens none of its keyslots.
    package func unlock(_ claimed: Sidecar) throws -> SidecarKeys? { try secret.unlock(claimed) }

    /// Whether it is a passphrase and not a raw key.
    package var isPassphrase: Bool { secret.isPassphrase }

    /// Whether a device keeps it.
    package var isDevice: Bool { secret.isDevice }

    /// Runs an opening with the key. When it is refused and resembles a recovery key, the error names the problem with
    /// it.
    package func explainingRefusal<Success>(_ open: () throws -> Success) throws -> Success {
        do {
            return try open()
        } catch let error as StoreError where error.code == .wrongKey {
            if isDevice {
                if secret.wasRefusedByDevice { throw error }
                throw StoreError(
                    .wrongKey, what: error.what, why: "It has no keyslot that the \(name) opens.",
                    remedy: "`cipherctl key list` shows which slots there are. Give the key of one of them.")
            }
            guard let fault = recoveryKeyFault else { throw error }
            throw StoreError(
                .wrongKey, what: error.what, why: "It reads like a recovery key, but \(fault).",
                remedy: "Compare it with what was printed; if it is another key, check that one.")
        }
    }

    /// The problem of a recovery key; nil for a valid one, and for a text that does not resemble one.
    private var recoveryKeyFault: RecoveryKey.ReadingError? {
        isPassphrase ? secret.withBytes { Self.fault($0) } : nil
    }

    private static func fault(_ text: UnsafeRawBufferPointer) -> RecoveryKey.ReadingError? {
        do throws(RecoveryKey.ReadingError) {
            _ = try RecoveryKey(reading: text)
            return nil
        } catch {
            return error == .otherText ? nil : error
        }
    }

    /// The data key under a salt; a passphrase is derived.
    func dataKey(salt: Salt, settings: CipherSettings) throws -> DataKey {
        try secret.dataKey(salt: salt, settings: settings)
    }

    /// Sets the key on a connection that is being prepared.
    func give(to db: Database) throws { try db.use(secret) }
}

/// How a tool gets its key: it is read once all checks that need no key have passed.
package struct ToolKey: Sendable {
    /// Names the source.
    package let source: @Sendable () throws -> KeySource
    /// Reads it.
    package let read: @Sendable (KeySource) throws -> UnlockedKey

    package init(
        source: @escaping @Sendable () throws -> KeySource, read: @escaping @Sendable (KeySource) throws -> UnlockedKey
    ) {
        self.source = source
        self.read = read
    }

    init(_ source: KeySource) { self.init(source: { source }, read: { try UnlockedKey($0) }) }

    package func unlocked() throws -> UnlockedKey { try read(source()) }
}
