/// Which target may import which: C stays behind one fence for each library, and imports go down only.
enum ImportFence {
    /// The layers of Docs/Architecture.md, lowest first. A target imports targets of lower layers only.
    static let layers: [Set<String>] = [
        ["CSQLCipher", "CCurl", "COpenSSL", "CPKCS11", "CPostgreSQL", "CPlatform", "CEditLine", "CQRCode", "CTPM2"],
        ["StorePlatform"],
        ["ServicePlatform", "StoreSharing", "StoreCrypto"],
        ["KeyCustody", "ObjectStorage", "PageFormat", "QRCodes"],
        ["CipherDatabase", "KeyDevices", "TPM2Keys"],
        ["CipherSchema"],
        ["RotationCore", "CipherRecords"],
        ["CipherObservation"],
        ["CipherStore"],
        ["KeyRotation", "RecoveryShares", "StoreBackups", "StoreTools", "ChangesetSync"],
        ["EncryptionConformance", "PostgreSQLRemote", "S3Storage", "StoreFleet"],
        ["cipherctl", "StoreBenchmark", "StoreDemo", "Workbench"],
    ]

    /// The modules that stand for C, and where they may be imported. Tests may compare with the system's libraries.
    static let cFences: [(modules: Set<String>, allowed: [String])] = [
        (
            ["CSQLCipher"],
            [
                "Sources/CipherDatabase/SQLite/", "Sources/CipherStore/Reexports.swift", "Sources/StoreBenchmark/",
                "Tests/",
            ]
        ),
        (["COpenSSL"], ["Sources/StoreCrypto/", "Tests/"]),
        (["CPKCS11"], ["Sources/KeyDevices/PKCS11/"]),
        (["CEditLine"], ["Sources/cipherctl/Shell/"]),
        (["CPostgreSQL"], ["Sources/PostgreSQLRemote/Server/"]),
        (
            ["CPlatform", "Glibc", "Musl", "Darwin", "Bionic"],
            ["Sources/StorePlatform/", "Sources/ServicePlatform/", "Tests/"]
        ),
        (["CQRCode"], ["Sources/QRCodes/"]),
        (["CTPM2"], ["Sources/TPM2Keys/"]),
        (["CCurl"], ["Sources/S3Storage/Transfer/"]),
    ]

    static func findings(in tree: SourceTree) -> [Finding] {
        tree.swiftFiles(in: "Sources", "Tests").flatMap { file in
            imports(of: file).flatMap { found in
                [cFinding(file, found), layerFinding(file, found)].compactMap(\.self)
            }
        }
    }

    /// StorePlatform knows the platform, and none of what the processes that share a store agree on: no name of SQLite, no lock
    /// byte, no holder. And the offset of SQLite's lock bytes stands in one file.
    static func sharingFindings(in tree: SourceTree) -> [Finding] {
        let names = #/(?i:sqlite|lock_?byte|lockfile|holder|writerqueue|writeslot|walindex)/#
        let pendingByte = #/\b(?:1\s*<<\s*30|1_?073_?741_?82[4-9]|0x4000_?0000)\b/#
        // The second one is an amount of memory.
        let homes = ["Sources/StoreSharing/Locks/LockBytes.swift", "Sources/KeyCustody/CustodyLimits"]
        return tree.swiftFiles(in: "Sources").flatMap { file in
            file.codeLines.enumerated().compactMap { index, line -> Finding? in
                if file.path.hasPrefix("Sources/StorePlatform/"), let match = line.firstMatch(of: names) {
                    let message = "\(match.0) belongs to StoreSharing: this layer knows the platform only"
                    return Finding(path: file.path, line: index + 1, message: message)
                }
                guard line.contains(pendingByte), !homes.contains(where: file.path.hasPrefix) else { return nil }
                return Finding(
                    path: file.path, line: index + 1, message: "offsets of locks stand in \(homes[0]) and nowhere else")
            }
        }
    }

    /// Modules that a file imports, with line numbers; attributes, access levels and `import func A.b` are understood.
    static func imports(of file: SourceFile) -> [(module: String, line: Int)] {
        let pattern =
            #/
            ^\s* (?: @\w+ (?: \( [^)]* \) )? \s+ )*
            (?: (?: public | package | internal | fileprivate | private ) \s+ )?
            import \s+ (?: (?: typealias | struct | class | enum | protocol | let | var | func ) \s+ )? (\w+)
            /#
        return file.codeLines.enumerated().compactMap { index, line in
            guard line.contains("import"), let match = line.firstMatch(of: pattern) else { return nil }
            return (String(match.1), index + 1)
        }
    }

    private static func cFinding(_ file: SourceFile, _ found: (module: String, line: Int)) -> Finding? {
        guard let fence = cFences.first(where: { $0.modules.contains(found.module) }),
            !fence.allowed.contains(where: { file.path.hasPrefix($0) })
        else { return nil }
        return Finding(
            path: file.path,
            line: found.line,
            message: "imports \(found.module), which only \(fence.allowed.joined(separator: ", ")) may do"
        )
    }

    private static func layerFinding(_ file: SourceFile, _ found: (module: String, line: Int)) -> Finding? {
        let parts = file.path.split(separator: "/")
        guard parts.count > 2, parts[0] == "Sources", let importedLayer = layer(of: found.module) else { return nil }
        let target = String(parts[1])
        guard let ownLayer = layer(of: target) else {
            return Finding(path: file.path, line: nil, message: "\(target) has no place in ImportFence.layers")
        }
        guard importedLayer >= ownLayer else { return nil }
        return Finding(
            path: file.path,
            line: found.line,
            message: "\(target) imports \(found.module), which is not in a layer below it"
        )
    }

    private static func layer(of target: String) -> Int? {
        layers.firstIndex { $0.contains(target) }
    }
}
