import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

extension StoreKeys {
    /// What accepting a sidecar did.
    public struct Acceptance: Hashable, Sendable {
        /// The generation of the sidecar that was found.
        public let found: UInt64
        /// The generation that the store remembered; nil where it remembered none.
        public let remembered: UInt64?
        /// The generation of the sidecar now, which the store remembers.
        public let generation: UInt64
        /// What opens the store now. Slots that were removed or changed since the sidecar was the newest are here again.
        public let summary: Summary

        /// Whether the sidecar was older than what the store remembered; otherwise nothing was changed in it.
        public var wasRolledBack: Bool { generation != found }
    }

    /// Accepts a sidecar that was put back to a former generation, which opening refuses with `sidecarRolledBack`: for those
    /// who did so on purpose, because all newer copies are lost.
    ///
    /// The sidecar is written anew, above the generation that the store remembers, and the key log tells of it. **Keys that
    /// were removed or changed since it was the newest open the store again**: look at the slots of the answer. A sidecar
    /// that is the newest stays as it is, and is remembered by the store from then on.
    ///
    /// - Parameters:
    ///   - path: The database file.
    ///   - source: A key that the sidecar knows; asked once.
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

    /// The same, with the keys of the sidecar, which are at hand already.
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
