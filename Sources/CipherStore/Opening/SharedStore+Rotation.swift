import CipherDatabase
import KeyCustody

// What a rotation needs of an open store.
extension SharedStore {
    /// The keys of the store, and the sidecar that they opened.
    ///
    /// - Throws: `StoreError` `saltMissing` without a sidecar, which no opened store is.
    package func requireRotationKeys() throws -> (SidecarKeys, Sidecar) {
        guard let keys = keyring.keys, let sidecar = keyring.sidecar else {
            throw StoreError(
                .saltMissing, what: "\"\(path)\" has no sidecar that its key opens.",
                why: "A shared store always has one.", remedy: "Restore it from a backup of the store.")
        }
        return (keys, sidecar)
    }

    /// The secret that opened the store; nil where only its keys are at hand.
    package func rotationSecret() throws -> Secret? { keyring.secret }

    /// Takes the keys of the next epoch, which the former ones may not give: so the store that was rotated goes on as well
    /// when its master key was renewed.
    package func adoptRotatedKeys(_ keys: RotationKeys) {
        let files = SidecarFiles(databasePath: StorePaths(path).database)
        guard let choice = try? files.choose(files.read(), unlock: { _ in keys.next }) else { return }
        keyring.changeKeys(choice.keys, choice.sidecar)
    }
}
