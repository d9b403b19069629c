// swift-tools-version: 6.1
import PackageDescription

/// The layers of the package, lowest first; imports go down only (Docs/Architecture.md).
let package = Package(
    name: "CipherStore",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "CipherStore", targets: ["CipherStore"]),
        .library(name: "KeyRotation", targets: ["KeyRotation"]),
        .executable(name: "cipherctl", targets: ["cipherctl"]),
        // Preloaded by tests into programs that are not linked with it (Docs/Testing.md).
        .library(name: "FaultShimPreload", type: .dynamic, targets: ["FaultShim"]),
    ],
    targets: [
        .systemLibrary(
            name: "CSQLCipher",
            pkgConfig: "sqlcipher",
            providers: [.apt(["libsqlcipher-dev"]), .brew(["sqlcipher"])]
        ),
        .systemLibrary(
            name: "COpenSSL",
            pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]
        ),
        .target(name: "CPlatform"),
        .target(name: "StorePlatform", dependencies: ["CPlatform"]),
        .target(name: "StoreCrypto", dependencies: ["COpenSSL", "StorePlatform"]),
        .target(name: "PageFormat", dependencies: ["StoreCrypto"]),
        .target(name: "KeyCustody", dependencies: ["StorePlatform", "StoreCrypto"]),
        .target(
            name: "CipherDatabase",
            dependencies: ["CSQLCipher", "KeyCustody", "PageFormat", "StorePlatform", "StoreCrypto"]
        ),
        .target(name: "CipherRecords", dependencies: ["CipherDatabase"]),
        .target(
            name: "CipherStore",
            dependencies: [
                "CipherDatabase", "CipherRecords", "KeyCustody", "PageFormat", "StorePlatform", "StoreCrypto",
                "CSQLCipher",
            ]
        ),
        .target(
            name: "KeyRotation",
            dependencies: [
                "CipherDatabase", "CipherStore", "KeyCustody", "PageFormat", "StoreCrypto", "StorePlatform",
            ]
        ),
        .executableTarget(
            name: "cipherctl",
            dependencies: ["CipherStore", "KeyCustody", "KeyRotation", "PageFormat", "StorePlatform", "StoreCrypto"]
        ),
        .executableTarget(name: "StoreDemo", dependencies: ["CipherStore"]),
        .executableTarget(
            name: "StoreBenchmark",
            dependencies: ["CBaseline", "CipherStore", "KeyRotation", "PageFormat", "StoreCrypto"]),
        .target(name: "CBaseline", dependencies: ["COpenSSL", "CSQLCipher"]),

        // Tests: one folder for each kind (Docs/Testing.md).
        .target(
            name: "TestKit",
            dependencies: ["CipherStore", "CTestKit", "KeyCustody", "PageFormat", "StoreCrypto", "StorePlatform"],
            path: "Tests/Support/TestKit"
        ),
        .target(name: "FaultShim", path: "Tests/Support/FaultShim"),
        .executableTarget(
            name: "StoreActor",
            dependencies: [
                "CipherStore", "CSQLCipher", "CTestKit", "FaultShim", "KeyCustody", "KeyRotation", "StoreCrypto",
                "StorePlatform", "TestKit",
            ],
            path: "Tests/Support/StoreActor"
        ),
        .target(name: "CTestKit", path: "Tests/Support/CTestKit"),
        .testTarget(name: "StorePlatformTests", dependencies: ["StorePlatform"], path: "Tests/Unit/StorePlatform"),
        .testTarget(
            name: "StoreCryptoTests",
            dependencies: ["COpenSSL", "StoreCrypto", "StorePlatform"],
            path: "Tests/Unit/StoreCrypto"
        ),
        .testTarget(
            name: "PageFormatTests",
            dependencies: ["PageFormat", "StoreCrypto", "CSQLCipher"],
            path: "Tests/Unit/PageFormat"
        ),
        .testTarget(
            name: "KeyCustodyTests",
            dependencies: ["KeyCustody", "StorePlatform", "StoreCrypto"],
            path: "Tests/Unit/KeyCustody"
        ),
        .testTarget(
            name: "CipherDatabaseTests",
            dependencies: ["CipherDatabase", "KeyCustody", "StorePlatform", "CSQLCipher", "TestKit"],
            path: "Tests/Unit/CipherDatabase"
        ),
        .testTarget(
            name: "CipherRecordsTests",
            dependencies: ["CipherDatabase", "CipherRecords"],
            path: "Tests/Unit/CipherRecords"
        ),
        .testTarget(
            name: "CipherStoreTests",
            dependencies: ["CipherStore", "KeyCustody", "PageFormat", "StoreCrypto", "StorePlatform", "TestKit"],
            path: "Tests/Unit/CipherStore"
        ),
        .testTarget(
            name: "KeyRotationTests",
            dependencies: ["CipherStore", "KeyCustody", "KeyRotation", "StorePlatform", "TestKit"],
            path: "Tests/Unit/KeyRotation"
        ),
        .testTarget(
            name: "MultiProcessTests",
            dependencies: ["CipherStore", "StorePlatform", "TestKit", "StoreActor"],
            path: "Tests/MultiProcess"
        ),
        .testTarget(
            name: "ConformanceTests",
            dependencies: ["CipherStore", "KeyRotation", "StoreCrypto", "TestKit", "StoreActor"],
            path: "Tests/Conformance"
        ),
        .testTarget(
            name: "CrashTests",
            dependencies: ["CipherStore", "KeyCustody", "StorePlatform", "TestKit", "StoreActor"],
            path: "Tests/Crash"
        ),
        .testTarget(
            name: "CommandLineTests",
            dependencies: ["CipherStore", "KeyCustody", "KeyRotation", "TestKit", "cipherctl"],
            path: "Tests/CommandLine"
        ),
        .testTarget(
            name: "PropertyTests",
            dependencies: ["CipherDatabase", "TestKit"],
            path: "Tests/Property"
        ),
        .testTarget(name: "TidyTests", path: "Tests/Tidy"),
    ],
    swiftLanguageModes: [.v6]
)
