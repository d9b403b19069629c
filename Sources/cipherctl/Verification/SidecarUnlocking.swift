import CipherStore
import KeyCustody
import StorePlatform

/// Proves a key by the sidecar alone: the database itself is not opened, and may be damaged.
enum SidecarUnlocking {
    /// The sidecar as the key authenticates it.
    ///
    /// - Throws: `StoreError` `noSuchStore` where there is none, and what else opening the store would throw.
    static func choose(_ path: String, _ key: UnlockedKey, _ console: Console) throws -> SidecarChoice {
        let files = SidecarFiles(databasePath: StorePaths(path).database)
        guard let kind = try Files.kind(path) else { throw StoreOpening.noSuchStore(path) }
        let isPlausible = try kind == .regular && Files.byteCount(path) ?? 0 > 0
        let choice =
            try isPlausible ? key.explainingRefusal { try files.choose(files.read(), unlock: key.unlock) } : nil
        if let choice { return choice }
        // No sidecar, no file, no content: opening says best what that means.
        try StoreOpening.readOnly(path, key, console).close()
        throw StoreOpening.noSuchStore(path)
    }
}
