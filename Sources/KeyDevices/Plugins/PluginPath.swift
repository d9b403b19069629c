import KeyCustody
import StorePlatform

/// The folders in which key plugins are looked for.
package struct PluginPath: Sendable {
    package static let variable = "CIPHERSTORE_PLUGIN_PATH"
    package static let standard = ["/usr/lib/cipherstore/plugins", "/usr/local/lib/cipherstore/plugins"]

    package let folders: [String]

    /// - Parameter folders: Absolute paths; nil uses the variable, or the standard folders if it is not set.
    /// - Throws: `StoreError` `invalidKey` for a path that is not absolute.
    package init(
        _ folders: [String]?, environment: (String) -> [UInt8]? = { ProcessInspector.environmentValue($0) }
    ) throws(StoreError) {
        let named = environment(Self.variable).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let given = folders ?? (named.isEmpty ? Self.standard : named.split(separator: ":").map(String.init))
        if let relative = given.first(where: { !$0.hasPrefix("/") }) {
            throw StoreError(
                .invalidKey, what: "Key plugins cannot be looked for in \"\(relative)\".",
                why: "The path is not absolute: the current directory could have another program of the name.",
                remedy: "Give absolute folders in \(Self.variable), with colons between them.")
        }
        self.folders = given
    }

    /// The program of a plugin, without links in its path.
    ///
    /// - Throws: `StoreError` `keyMissing` when no folder has it, `invalidKey` when another user may change it, or for
    ///   an invalid name.
    package func program(of name: String) throws -> String {
        guard PluginName.isValid(name) else {
            throw StoreError(
                .invalidKey, what: "There is no plugin of this name.",
                why: "The name of a plugin has 1 to \(CustodyLimits.pluginNameCharacters) small letters, digits and "
                    + "hyphens, and begins with a letter.", remedy: "Check the name.")
        }
        let file = "cipherctl-key-\(name)"
        for folder in folders {
            let path = folder + "/" + file
            guard Files.exists(path) else { continue }
            let program = try Files.resolvingLinks(of: path)
            try Self.requireTrusted(program)
            return program
        }
        throw StoreError(
            .keyMissing, what: "The plugin \"\(name)\" is not installed.",
            why: "No folder has a program \(file): \(folders.joined(separator: ", ")).",
            remedy: "Install it there, or name its folder in \(Self.variable).")
    }

    /// Refuses a program that another user than root and this one could change or replace.
    private static func requireTrusted(_ program: String) throws {
        let user = ProcessInspector.effectiveUser
        var (path, isProgram) = (program, true)
        while true {
            guard let status = try Files.ownStatus(of: path) else { throw refusal(program, "\"\(path)\" is missing.") }
            guard status.owner == 0 || status.owner == user else {
                throw refusal(program, "\"\(path)\" belongs to user \(status.owner).")
            }
            // Debian lets the group "staff", which it says is equivalent to root, write /usr/local.
            let forbidden: UInt32 = isProgram || status.owner != 0 ? 0o022 : 0o002
            let isSticky = !isProgram && status.permissions & 0o1000 != 0
            guard status.permissions & forbidden == 0 || isSticky else {
                throw refusal(
                    program, "Others may write \"\(path)\" (mode \(String(status.permissions & 0o7777, radix: 8))).")
            }
            guard path != "/" else { return }
            (path, isProgram) = (Files.directory(of: path), false)
        }
    }

    private static func refusal(_ program: String, _ why: String) -> StoreError {
        StoreError(
            .invalidKey, what: "The plugin \"\(program)\" is not started.",
            why: why + " Whoever may change the program or a folder above it would learn the key.",
            remedy: "Let the program and its folders belong to root or to the user of this process, and take the right "
                + "to write from others.")
    }
}
