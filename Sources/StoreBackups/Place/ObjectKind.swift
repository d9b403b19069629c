/// The kinds of objects, and the folders of a repository.
enum ObjectKind: String, CaseIterable {
    /// Records of backups.
    case backup = "b"
    /// The version of the repository.
    case format = "f"
    /// Maps, sidecars and key logs.
    case blob = "o"
    /// Packs of pages.
    case pack = "p"
    /// Bases and segments of continuous replication.
    case replica = "r"

    /// The name of the object with the version.
    static let formatName = "f/format"
    /// The content of the object with the version.
    static let formatContent = Array("cipherstore backup repository 1\n".utf8)
    static let formatStart = Array("cipherstore backup repository ".utf8)

    func name(_ hash: ObjectHash) -> String { rawValue + "/" + hash.description }

    /// The hash in the name of an object of this kind; nil for another name.
    func hash(ofName name: String) -> ObjectHash? {
        guard self != .format, self != .replica, name.hasPrefix(rawValue + "/") else { return nil }
        return ObjectHash(name.dropFirst(2))
    }

    /// Whether a text is the name of an object.
    static func isName(_ text: String) -> Bool {
        text == formatName || ReplicaName(text) != nil || allCases.contains { $0.hash(ofName: text) != nil }
    }
}
