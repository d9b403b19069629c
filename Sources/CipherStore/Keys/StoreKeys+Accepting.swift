import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

extension StoreKeys {
    /// The result of accepting a sidecar.
    public struct Acceptance: Hashable, Sendable {
        /// The generation of the sidecar that was found.
        public let found: UInt64
        /// The generation that the store remembered; nil where it remembered none.
        public let remembered: UInt64?
        /// The generation of the sidecar now, which the store remembers.
        public let generation: UInt64
        /// The keys that open the store now. Slots that were removed or changed since the sidecar was the newest are
        /// included again.
        public let summary: Summary

        /// Whether the sidecar was older than what the store remembered; otherwise nothing was changed in it.
        public var wasRolledBack: Bool { generation != found }
    }

    /// Accepts a sidecar that was put back to a former generation, which an opening refuses with `sidecarRolledBack`.
    /// For users who did so on purpose, because all newer copies are lost.
    ///
    /// The sidecar is written again, with a generation above the remembered one, and the key log records it. **Keys
    /// that were removed or changed since it was the newest open the store again**: check the slots in the result. A
    /// sidecar that is the newest stays as it is, and is remembered by the store from then on.
    ///
    /// - Parameters:
    ///   - path: The database file.
    ///   - source: A key that the sidecar knows; read once.
    ///   - configuration: As for `SharedStore.open`.
    /// - Throws: As `SharedStore.open`; `StoreError`: `rotationPending`, `storeInUse`; `DatabaseError` where the store could
    ///   not be written. It can be repeated then.
    @discardableResult
    public static func acceptSidecar(
        at path: String, unlockedBy source: KeySource, configuration: Configuration = Configuration()
    ) throws -> Acceptance {
        let administration = try KeyAdministration.unlock(databasePath: StorePaths(path).database, with: source.read())
        return try acceptSidecar(at: path, holding: administration.keys, configuration: configuration)
    }

    /// The same, with the keys of the sidecar, which are known already.
    package static func acceptSidecar(
        at path: String, holding keys: SidecarKeys, configuration: Configuration = Configuration(),
        onNotice: (@Sendable (String) -> Void)? = nil
    ) throws -> Acceptance {
        let store = try SharedStore.open(
            at: path, holding: keys, configuration: configuration, acceptsFormerSidecar: true)
        defer { try? store.close() }
        var administration = KeyAdministration(databasePath: StorePaths(path).database, keys: keys)
        administration.onNotice = onNotice ?? configuration.onNotice
        let remembered = try store.rememberedGeneration()
        let found = try administration.sidecar()
        let isRolledBack = remembered.map { found.isRolledBack(storeRemembersGeneration: $0) } ?? false
        let accepted = isRolledBack ? try administration.accept(over: remembered ?? 0) : found
        try store.remember(accepted)
        return Acceptance(
            found: found.generation, remembered: remembered, generation: accepted.generation, summary: Summary(accepted)
        )
    }
}
