import KeyCustody

extension Keyring {
    /// The secret that opened the file, for the slot that a rotation keeps; nil where only keys are at hand.
    package func rotationSecret() throws -> RotationSecret? { try (settledKey?.box ?? held?.box)?.rotationSecret() }
}

extension KeyMaterialBox {
    fileprivate func rotationSecret() throws -> RotationSecret {
        switch material {
        case .passphrase(let passphrase): RotationSecret(.passphrase(try Passphrase(passphrase.secret.copy())))
        case .rawKey(let key): RotationSecret(.rawKey(try RawKey(key.secret.copy())))
        }
    }
}
