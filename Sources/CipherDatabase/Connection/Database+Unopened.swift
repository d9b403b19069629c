import KeyCustody

extension SerialConnection {
    /// A placeholder for a connection that could not be opened, where nothing can be thrown: each of its statements
    /// throws the reason. It traps only when the process has no memory left.
    static func unopened(because error: any Error, _ configuration: Configuration) -> SerialConnection {
        do {
            let db = try Database(
                path: MemoryPath.own, label: configuration.label ?? "CipherStore.DatabaseQueue",
                configuration: configuration, keyring: Keyring(path: MemoryPath.own, configuration: configuration),
                usesGate: false)
            db.discard()
            db.openingFailure = error
            return SerialConnection(db, qos: configuration.writeQoS, target: nil, allowsOpenTransaction: false)
        } catch let second {
            ProgrammerError.trap("\(error) (and no connection at all: \(second))")
        }
    }
}
