import KeyCustody

/// What the recovery of a rotation needs before there is a connection.
extension Keyring {
    /// The keys for what a sidecar claims; nil when the secret opens no slot of it.
    package func keys(for secret: Secret, of claimed: Sidecar) throws -> SidecarKeys? {
        try unlock(claimed, with: secret)
    }

    /// The keys of a former opening for what a sidecar claims, without asking a source: the secret that gave them may open
    /// what they do not, the slots of a new master key among it.
    package func heldKeys(of claimed: Sidecar) throws -> SidecarKeys? {
        guard let held else { return nil }
        if let secret = held.secret, let keys = try unlock(claimed, with: secret) { return keys }
        return held.keys
    }

    /// The secret that opened the file, for the slot that a rotation keeps; nil where only keys are at hand.
    package var rotationSecret: Secret? { settledKey?.secret ?? held?.secret }

    /// Tells the store's owner what was done.
    package func report(_ texts: [String]) {
        for text in texts { notice("\"\(paths?.database ?? "")\": \(text)") }
    }
}
