//! Tests of a drive that a program controls step by step, one request at a time: it keeps flushed data over a loss of
//! power, and refuses settings that it would ignore.

use wearwell_watch::stepped_drive::SteppedDrive;

use crate::config_of;

#[test]
fn flushed_data_of_a_drive_operated_step_by_step_survives_a_power_cut() {
    for design in wearwell::design::ALL {
        let mut drive = SteppedDrive::new(&config_of(&[]), design.name, 256).unwrap();
        drive.write(4096, &[7; 4096]).unwrap();
        drive.flush().unwrap();
        drive.cut_power_now();
        assert!(drive.is_power_lost());
        drive.recover(None).unwrap();
        let mut page = [0; 4096];
        drive.read(4096, &mut page).unwrap();
        assert_eq!(page, [7; 4096], "{}", design.name);
    }
}

#[test]
fn a_drive_operated_step_by_step_refuses_settings_without_effect() {
    let settings = config_of(&["precondition.mode=steady"]);
    let refused = SteppedDrive::new(&settings, "page-map", 256).unwrap_err();
    assert!(refused.to_string().starts_with("precondition.mode has no effect"), "{refused}");
}
