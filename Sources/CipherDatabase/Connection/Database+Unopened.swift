import KeyCustody

extension SerialConnection {
    /// A connection that stands for one which could not be opened, where nothing can be thrown: each statement throws
    /// why. Only a process without any memory left traps here.
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
